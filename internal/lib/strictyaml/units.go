package strictyaml

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// The parsers below answer a complaint that follows the value in a message, or "".

func noUnit(text string) string { return fmt.Sprintf("has no unit; write %ss or %sms", text, text) }

// parseAmount reads a whole number.
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

// ParseDecimal reads a number with at most places decimals, as a whole number of 10^-places.
func ParseDecimal(text string, places int, least, most int64) (int64, string) {
	refuse := func(why string) (int64, string) {
		return 0, fmt.Sprintf("%s; write a number from %s to %s", why, SpellDecimal(least, places), SpellDecimal(most, places))
	}
	if strings.HasPrefix(text, "-") {
		return refuse("is negative")
	}
	m := DecimalNumber.FindStringSubmatch(text)
	if m == nil {
		return refuse("is not a plain number")
	}
	if len(m[2]) > places {
		return refuse(fmt.Sprintf("has more than %d decimals", places))
	}
	digits := strings.ReplaceAll(m[1], "_", "") + m[2] + strings.Repeat("0", places-len(m[2]))
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n < least || n > most {
		return refuse("is out of range")
	}
	return n, ""
}

// SpellDecimal writes n·10^-places without trailing zeros.
func SpellDecimal(n int64, places int) string {
	text := fmt.Sprintf("%0*d", places+1, n)
	text = text[:len(text)-places] + "." + text[len(text)-places:]
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}

// ParseDuration reads a duration with its unit.
func ParseDuration(text string, least, most time.Duration) (time.Duration, string) {
	if barePositive.MatchString(text) {
		return 0, noUnit(text)
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, "is not a duration; write a number and a unit, such as 500ms, 5s or 2m"
	}
	if d < least || d > most || strings.HasPrefix(text, "-") {
		return 0, fmt.Sprintf("is out of range; write %s to %s", SpellDuration(least), SpellDuration(most))
	}
	return d, ""
}

// SpellDuration is d without the zero units that Duration.String appends: 24h, not 24h0m0s.
func SpellDuration(d time.Duration) string {
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

// ParseSize reads a number of bytes, with a unit or without.
func ParseSize(text string, least, most int64) (int64, string) {
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

// YAML reads 0x10, 010 and 1e3 as numbers too. Each surprises somebody here, so only plain digits pass.
var (
	wholeNumber = regexp.MustCompile(`^(0|[1-9][0-9]*(_[0-9]+)*)$`)
	// DecimalNumber matches a number in plain digits: its whole part, and its decimals.
	DecimalNumber = regexp.MustCompile(`^(0|[1-9][0-9]*(?:_[0-9]+)*)(?:\.([0-9]+))?$`)
	barePositive  = regexp.MustCompile(`^[0-9.]+$`)
	sizeNumber    = regexp.MustCompile(`^([0-9]+) ?([A-Za-z]*)$`)
)
