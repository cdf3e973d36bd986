package strictyaml

import (
	"strconv"
	"strings"
	"time"
)

// Amount reads a whole number from least to most. A bad one reads as 1, which every amount may be.
func (v Value) Amount(least, most int64) int64 {
	text, ok := v.Digits()
	if !ok {
		return 1
	}
	n, complaint := parseAmount(text, least, most)
	if complaint != "" {
		v.Problem("%s %s", v.Say(text), complaint)
		return 1
	}
	return n
}

// Decimal reads a number with at most places decimals as a whole number of 10^-places. most is in that unit.
// A bad one reads as fallback.
func (v Value) Decimal(places int, least, most, fallback int64) int64 {
	text, ok := v.Digits()
	if !ok {
		return fallback
	}
	n, complaint := ParseDecimal(text, places, least, most)
	if complaint != "" {
		v.Problem("%s %s", v.Say(text), complaint)
		return fallback
	}
	return n
}

// Digits is the text of a value that was written as a number and not as a text.
func (v Value) Digits() (string, bool) {
	text, ok := v.Scalar()
	if ok && v.Quoted() {
		v.Problem("%s is a text; write the number without quotes", Show(text))
		return "", false
	}
	return text, ok
}

// Bool reads true or false; a bad one reads as false.
func (v Value) Bool() bool {
	text, ok := v.Scalar()
	switch {
	case !ok:
	case text != "true" && text != "false":
		v.Problem("%s is neither true nor false; write one of them", v.Say(text))
	case v.Quoted():
		v.Problem("%s is a text; write it without quotes", Show(text))
	}
	return text == "true"
}

// Whole reads a whole number from least to most, also between quotes.
func (v Value) Whole(into *int64, least, most int64) {
	text, ok := v.Scalar()
	if !ok {
		return
	}
	n, complaint := parseAmount(text, least, most)
	if complaint != "" {
		v.Problem("%s %s", v.Say(text), complaint)
		return
	}
	*into = n
}

// Number reads a number from least to most.
func (v Value) Number(into *float64, least, most float64) {
	text, ok := v.Scalar()
	if !ok {
		return
	}
	n, err := strconv.ParseFloat(text, 64)
	switch {
	case err != nil || n != n || strings.ContainsAny(text, "xXpP_"):
		v.Problem("%s is not a number; write one, such as 0.8", v.Say(text))
	case n < least || n > most:
		v.Problem("%s is out of range; write %g to %g", v.Say(text), least, most)
	default:
		*into = n
	}
}

// Duration reads a duration from least to most.
func (v Value) Duration(into *time.Duration, least, most time.Duration) {
	if text, ok := v.Scalar(); ok {
		if d, ok := v.ParseDuration(text, least, most); ok {
			*into = d
		}
	}
}

// ParseDuration is Duration of a part of the value.
func (v Value) ParseDuration(text string, least, most time.Duration) (time.Duration, bool) {
	d, complaint := ParseDuration(text, least, most)
	if complaint != "" {
		v.Problem("%s %s", v.Say(text), v.Plainly(text, complaint))
		return 0, false
	}
	return d, true
}
