package tenants

import (
	"fmt"
	"math"
	"net"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// maxAmount bounds every count and limit. A thousand times that still fits an int64.
const maxAmount = 1_000_000_000_000

// maxName is the length a name may have, in bytes.
const maxName = 128

// amount reads a whole number from least to most. A bad one reads as 1, which every amount may be.
func (v value) amount(least, most int64) int64 {
	text, ok := v.number()
	if !ok {
		return 1
	}
	n, complaint := parseAmount(text, least, most)
	if complaint != "" {
		v.problem("%s %s", v.say(text), complaint)
		return 1
	}
	return n
}

// limit reads a whole number from 1, and has its own words for 0.
func (v value) limit(ofZero string) int64 {
	if v.node.Value == "0" && !v.skip() && !v.quoted() {
		v.problem("%s", ofZero)
		return 1
	}
	return v.amount(1, maxAmount)
}

// decimal reads a number with at most places decimals as a whole number of 10^-places. most is in that unit.
// A bad one reads as fallback.
func (v value) decimal(places int, least, most, fallback int64) int64 {
	text, ok := v.number()
	if !ok {
		return fallback
	}
	n, complaint := parseDecimal(text, places, least, most)
	if complaint != "" {
		v.problem("%s %s", v.say(text), complaint)
		return fallback
	}
	return n
}

// number is the text of a value that was written as a number and not as a text.
func (v value) number() (string, bool) {
	text, ok := v.scalar()
	if ok && v.quoted() {
		v.problem("%s is a text; write the number without quotes", show(text))
		return "", false
	}
	return text, ok
}

// boolean reads true or false; a bad one reads as false.
func (v value) boolean() bool {
	text, ok := v.scalar()
	switch {
	case !ok:
	case text != "true" && text != "false":
		v.problem("%s is neither true nor false; write one of them", v.say(text))
	case v.quoted():
		v.problem("%s is a text; write it without quotes", show(text))
	}
	return text == "true"
}

// duration reads a duration from least to most; a bad one reads as most.
func (v value) duration(least, most time.Duration) time.Duration {
	text, ok := v.scalar()
	if !ok {
		return most
	}
	d, complaint := parseDuration(text, least, most)
	if complaint != "" {
		v.problem("%s %s", v.say(text), v.plainly(text, complaint))
		return most
	}
	return d
}

// unreadable stands for a name that was refused. No file can hold it as a name; checks pass over it.
const unreadable = "\x00"

// name reads a text that names something.
func (v value) name() string {
	text, ok := v.scalar()
	if !ok {
		return unreadable
	}
	if complaint := checkName(text); complaint != "" {
		v.problem("%s %s", v.say(text), complaint)
		return unreadable
	}
	return text
}

// texts reads a list of texts. What was refused, an entry or the whole list, reads as "".
func (v value) texts(read func(value) string) []string {
	list, ok := v.items()
	if !ok {
		return []string{""}
	}
	out := make([]string, len(list))
	for i, it := range list {
		out[i] = read(it)
	}
	return out
}

// YAML reads 0x10, 010 and 1e3 as numbers too. Each surprises somebody here, so only plain digits pass.
var (
	wholeNumber   = regexp.MustCompile(`^(0|[1-9][0-9]*(_[0-9]+)*)$`)
	decimalNumber = regexp.MustCompile(`^(0|[1-9][0-9]*(?:_[0-9]+)*)(?:\.([0-9]+))?$`)
	barePositive  = regexp.MustCompile(`^[0-9.]+$`)
	sizeNumber    = regexp.MustCompile(`^([0-9]+) ?([A-Za-z]*)$`)
)

// The parsers below answer a complaint that follows the value in a message, or "".

func parseAmount(text string, least, most int64) (int64, string) {
	if strings.HasPrefix(text, "-") {
		return 0, fmt.Sprintf("is below %d; write a whole number from %d", least, least)
	}
	if !wholeNumber.MatchString(text) {
		return 0, "is not a plain whole number; write digits, such as 60000"
	}
	n, err := strconv.ParseInt(strings.ReplaceAll(text, "_", ""), 10, 64)
	switch {
	case err != nil || n > most:
		return 0, fmt.Sprintf("is too large; write at most %d", most)
	case n < least:
		return 0, fmt.Sprintf("is below %d; write a whole number from %d", least, least)
	}
	return n, ""
}

func parseDecimal(text string, places int, least, most int64) (int64, string) {
	wanted := fmt.Sprintf("write a number from %s to %s", spellDecimal(least, places), spellDecimal(most, places))
	if strings.HasPrefix(text, "-") {
		return 0, "is negative; " + wanted
	}
	m := decimalNumber.FindStringSubmatch(text)
	if m == nil {
		return 0, "is not a plain number; " + wanted
	}
	if len(m[2]) > places {
		return 0, fmt.Sprintf("has more than %d decimals; %s", places, wanted)
	}
	digits := strings.ReplaceAll(m[1], "_", "") + m[2] + strings.Repeat("0", places-len(m[2]))
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n < least || n > most {
		return 0, "is out of range; " + wanted
	}
	return n, ""
}

// spellDecimal writes n·10^-places without trailing zeros.
func spellDecimal(n int64, places int) string {
	text := fmt.Sprintf("%0*d", places+1, n)
	text = text[:len(text)-places] + "." + text[len(text)-places:]
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}

func noUnit(text string) string { return fmt.Sprintf("has no unit; write %ss or %sms", text, text) }

func parseDuration(text string, least, most time.Duration) (time.Duration, string) {
	if barePositive.MatchString(text) {
		return 0, noUnit(text)
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, "is not a duration; write a number and a unit, such as 500ms, 5s or 2m"
	}
	if d < least || d > most || strings.HasPrefix(text, "-") {
		return 0, fmt.Sprintf("is out of range; write %s to %s", spellDuration(least), spellDuration(most))
	}
	return d, ""
}

// spellDuration is d without the zero units that Duration.String appends: 24h, not 24h0m0s.
func spellDuration(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

var sizeUnits = map[string]int64{
	"": 1, "B": 1, "KB": 1e3, "MB": 1e6, "GB": 1e9, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30,
}

func parseSize(text string, least, most int64) (int64, string) {
	m := sizeNumber.FindStringSubmatch(text)
	if m == nil {
		return 0, "is not a size; write 32MiB, 10MB or a number of bytes"
	}
	unit, ok := sizeUnits[m[2]]
	if !ok {
		return 0, "has an unknown unit; write B, KB, MB, GB, KiB, MiB or GiB"
	}
	n, err := strconv.ParseInt(m[1], 10, 64)
	if err != nil || n > math.MaxInt64/unit || n*unit > most || n*unit < least {
		return 0, fmt.Sprintf("is out of range; write %d to %d bytes", least, most)
	}
	return n * unit, ""
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
