package tenants

import (
	"net"
	"strconv"
	"strings"

	"github.com/llmgov/llmgov/internal/lib/strictyaml"
)

// The parts of the reader of YAML files that the tables of keys are made of.
type (
	report       = strictyaml.Report
	place        = strictyaml.Place
	document     = strictyaml.Document
	value        = strictyaml.Value
	pair         = strictyaml.Pair
	field[T any] = strictyaml.Field[T]
	shape[T any] = strictyaml.Shape[T]
	kind         = strictyaml.Kind
	schema       = strictyaml.Schema
)

// Problem is one mistake in a file, a variable or a flag: its place, as File, Line and Col, and What says how to fix it.
type Problem = strictyaml.Problem

// Problems is everything wrong with one load, a slice of Problem sorted by file and position. It is never empty when returned as an error.
type Problems = strictyaml.Problems

// maxAmount bounds every count and limit. A thousand times that still fits an int64.
const maxAmount = 1_000_000_000_000

// readLimit reads a whole number from 1, and has its own words for 0.
func readLimit(v value, ofZero string) int64 {
	if v.Raw() == "0" && !v.Skip() && !v.Quoted() {
		v.Problem("%s", ofZero)
		return 1
	}
	return v.Amount(1, maxAmount)
}

func parseListen(text string) (string, string) {
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		return "", `is not an address; write host:port or :port, such as ":8080"`
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || strconv.FormatUint(n, 10) != port {
		return "", "has no valid port; write a number from 0 to 65535"
	}
	if strings.ContainsFunc(host, func(c rune) bool { return c <= ' ' || c == '/' || c == '@' || c >= 0x7f }) {
		return "", `has no valid host; write a host name or an address, such as "127.0.0.1:9090"`
	}
	return text, ""
}

// parseNoListen reads the address of a listener that is not there by default.
func parseNoListen(text string) (string, string) {
	if text == "" {
		return "", ""
	}
	return parseListen(text)
}

// checkSecret complains about a text that could not be sent in a header. The secret is never part of a message.
func checkSecret(secret string) string {
	if strings.ContainsFunc(secret, func(c rune) bool { return c <= ' ' || c >= 0x7f }) {
		return "holds spaces, line ends or characters outside ASCII; write it in one piece"
	}
	return ""
}

// checkKeyName complains about the key itself, as a name.
func checkKeyName(p pair) {
	if complaint := strictyaml.CheckName(p.Key); complaint != "" {
		p.Report.Add(p.At, "name %s %s", strictyaml.Show(p.Key), complaint)
	}
}

func listenKind() schema {
	return strictyaml.OrVariable(schema{"type": "string", "pattern": `:(0|[1-9][0-9]{0,4})$`})
}

func noListenKind() schema {
	return strictyaml.OrVariable(schema{"type": "string", "pattern": `^$|:(0|[1-9][0-9]{0,4})$`})
}

func zoneKind() schema {
	s := strictyaml.TextKind(`.`)()
	s["not"] = schema{"const": "Local"}
	return s
}

// The patterns of names.
const (
	anyName    = `^\S+$`
	tenantName = `^[^\s/~][^\s/]*$`
)

// limitField is a whole number from 1. 0 is refused, because it would be read as no limit.
func limitField[T any](key, about string, at func(*T) *int64) field[T] {
	f := strictyaml.AmountField(key, about, 1, maxAmount, at)
	f.Read = func(v value, into *T) {
		*at(into) = readLimit(v, "0 would be no limit; leave it out, or remove the keys to block")
	}
	return f
}

// atMost cuts a list to the entries that it may have, after a problem if there are more.
func atMost[T any](v value, list []T, most int) []T {
	if len(list) <= most {
		return list
	}
	v.Problem("has %d entries, more than the %d that are supported; remove some", len(list), most)
	return list[:most]
}
