package tenants

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/llmgov/llmgov/internal/strictyaml"
)

// maxAmount bounds every count and limit. A thousand times that still fits an int64.
const maxAmount = 1_000_000_000_000

// maxName is the length a name may have, in bytes.
const maxName = 128

// limit reads a whole number from 1, and has its own words for 0.
func readLimit(v value, ofZero string) int64 {
	if v.Raw() == "0" && !v.Skip() && !v.Quoted() {
		v.Problem("%s", ofZero)
		return 1
	}
	return v.Amount(1, maxAmount)
}

// unreadable stands for a name that was refused. No file can hold it as a name; checks pass over it.
const unreadable = "\x00"

// name reads a text that names something.
func readName(v value) string {
	text, ok := v.Scalar()
	if !ok {
		return unreadable
	}
	if complaint := checkName(text); complaint != "" {
		v.Problem("%s %s", v.Say(text), complaint)
		return unreadable
	}
	return text
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

// checkName complains about a name that would not survive as a metric label, in a URL or on a terminal.
func checkName(name string) string {
	switch {
	case name == "":
		return "is not a name; write one"
	case len(name) > maxName:
		return fmt.Sprintf("is longer than %d bytes; write a shorter name", maxName)
	case !utf8.ValidString(name):
		return "is not UTF-8; write letters and digits"
	case strings.ContainsFunc(name, func(c rune) bool { return !unicode.IsPrint(c) || c == ' ' }):
		return "holds spaces or unprintable characters; write letters, digits and punctuation"
	case strings.Contains(name, "${"): // it would pass for the variable; nor could a file of keys hold it
		return "holds ${, and variables are not expanded in names; write the name itself"
	}
	return ""
}

// checkSecret complains about what could not be sent in a header. The secret is never part of a message.
func checkSecret(secret string) string {
	if strings.ContainsFunc(secret, func(c rune) bool { return c <= ' ' || c >= 0x7f }) {
		return "holds spaces, line ends or characters outside ASCII; write it in one piece"
	}
	return ""
}

// checkName complains about the key itself, as the name of what it holds.
func checkKeyName(p pair) {
	if complaint := checkName(p.Key); complaint != "" {
		p.Report.Add(p.At, "name %s %s", strictyaml.Show(p.Key), complaint)
	}
}

func nameKind() schema {
	return strictyaml.OrVariable(schema{"type": []any{"string", "number", "boolean"}, "pattern": `^\S+$`, "maxLength": maxName})
}

func listenKind() schema {
	return strictyaml.OrVariable(schema{"type": "string", "pattern": `:(0|[1-9][0-9]{0,4})$`})
}

func zoneKind() schema {
	s := strictyaml.TextKind(`.`)()
	s["not"] = schema{"const": "Local"}
	return s
}

// mapOf is a mapping from names to what of describes.
func mapOf(names string, of kind, least int) kind {
	return func() schema {
		s := schema{
			"type":                 "object",
			"propertyNames":        schema{"pattern": names, "maxLength": maxName},
			"additionalProperties": of(),
		}
		if least > 0 {
			s["minProperties"] = least
		}
		return s
	}
}

// The patterns of names.
const (
	anyName    = `^\S+$`
	tenantName = `^[^\s/]+$`
)

// limitField is a whole number from 1. 0 is refused, because it would be read as no limit.
func limitField[T any](key, about string, at func(*T) *int64) field[T] {
	return field[T]{
		Name: key, About: about, Kind: strictyaml.WholeKind(1, maxAmount),
		Read: func(v value, into *T) {
			*at(into) = readLimit(v, "0 would be no limit; leave it out, or remove the keys to block")
		},
	}
}
