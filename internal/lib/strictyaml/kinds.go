package strictyaml

import (
	"encoding/json"
	"strconv"
	"time"
)

// OrVariable lets ${…} stand for the value, because it is expanded before anything is read.
func OrVariable(s Schema) Schema {
	return Schema{"anyOf": []any{s, Schema{"$ref": variableRef}}}
}

// WholeKind is a whole number.
func WholeKind(least, most int64) Kind {
	return func() Schema { return OrVariable(Schema{"type": "integer", "minimum": least, "maximum": most}) }
}

// FractionKind is a number of units of 10^-places.
func FractionKind(places int, least, most int64) Kind {
	return func() Schema {
		bound := func(n int64) json.Number { return json.Number(SpellDecimal(n, places)) }
		return OrVariable(Schema{"type": "number", "minimum": bound(least), "maximum": bound(most)})
	}
}

// TextKind is any text that pattern matches. YAML makes numbers and booleans of some; here they are texts like others.
func TextKind(pattern string) Kind {
	return func() Schema {
		return OrVariable(Schema{"type": []any{"string", "number", "boolean"}, "pattern": pattern})
	}
}

// StringKind is a text that is never a number.
func StringKind(pattern string) Kind {
	return func() Schema { return OrVariable(Schema{"type": "string", "pattern": pattern}) }
}

// WordKind is one of a list of words.
func WordKind(list ...string) Kind {
	return func() Schema { return OrVariable(Schema{"enum": list}) }
}

// BoolKind is true or false.
func BoolKind() Schema { return OrVariable(Schema{"type": "boolean"}) }

// durationUnit matches one number with a unit; the loader knows their bounds.
const durationUnit = `([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)`

// DurationKind is a duration with its unit.
func DurationKind() Schema {
	return OrVariable(Schema{"type": "string", "pattern": `^\+?(` + durationUnit + `)+$`, "examples": []any{"500ms", "5s", "2m"}})
}

// DurationKindTo is a duration within bounds, which its description says, because no pattern can.
func DurationKindTo(least, most time.Duration) Kind {
	return func() Schema {
		s := DurationKind()
		s["description"] = SpellDuration(least) + " to " + SpellDuration(most) + "."
		return s
	}
}

// SizeKindTo is a number of bytes, at least a KiB.
func SizeKindTo(most int64) Kind {
	return func() Schema {
		return Schema{"anyOf": []any{
			Schema{"type": "integer", "minimum": 1 << 10, "maximum": most},
			Schema{"type": "string", "pattern": `^[0-9]+ ?(B|KB|MB|GB|KiB|MiB|GiB)?$`, "examples": []any{"32MiB"}},
			Schema{"$ref": variableRef},
		}}
	}
}

// ListOf is a list of at least so many.
func ListOf(of Kind, least int, distinct bool) Kind {
	return func() Schema {
		s := Schema{"type": "array", "items": of()}
		if least > 0 {
			s["minItems"] = least
		}
		if distinct {
			s["uniqueItems"] = true
		}
		return s
	}
}

// AmountField is a whole number from least to most. One that is 0 to start with has no value by default, unless it may be 0.
func AmountField[T any](key, about string, least, most int64, at func(*T) *int64) Field[T] {
	return Field[T]{
		Name: key, About: about, Kind: WholeKind(least, most),
		Read: func(v Value, into *T) { *at(into) = v.Amount(least, most) },
		Start: func(from *T) any {
			if n := *at(from); n >= least {
				return n
			}
			return nil
		},
		Check: func(from *T) string { return outside(*at(from), least, most, whole) },
	}
}

func whole(n int64) string { return strconv.FormatInt(n, 10) }

// Decimals are the numbers that a field with decimals may have, in units of 10^-Places. A bad one reads as Fallback.
type Decimals struct {
	Places                int
	Least, Most, Fallback int64
}

// DecimalField is a number with decimals.
func DecimalField[T any](key, about string, d Decimals, at func(*T) *int64) Field[T] {
	return Field[T]{
		Name: key, About: about, Kind: FractionKind(d.Places, d.Least, d.Most),
		Read:  func(v Value, into *T) { *at(into) = v.Decimal(d.Places, d.Least, d.Most, d.Fallback) },
		Start: func(from *T) any { return json.Number(SpellDecimal(*at(from), d.Places)) },
		Check: func(from *T) string {
			return outside(*at(from), d.Least, d.Most, func(n int64) string { return SpellDecimal(n, d.Places) })
		},
	}
}

// DurationField is a duration from 0 to most.
func DurationField[T any](key, about string, most time.Duration, at func(*T) *time.Duration) Field[T] {
	return Field[T]{
		Name: key, About: about, Kind: DurationKindTo(0, most),
		Read:  func(v Value, into *T) { v.Duration(at(into), 0, most) },
		Start: func(from *T) any { return SpellDuration(*at(from)) },
		Check: func(from *T) string {
			if d := *at(from); d < 0 || d > most {
				return d.String() + " is out of range; use 0s to " + SpellDuration(most)
			}
			return ""
		},
	}
}
