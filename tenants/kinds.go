package tenants

import (
	"encoding/json"
	"time"
)

// A kind is the JSON Schema of what may stand behind a key. It sees values as YAML makes them, so it takes all that the
// loader takes and cannot refuse all that the loader refuses: how a number is spelled, or where a name leads.
type kind func() schema

const variableRef = "#/$defs/variable"

// orVariable lets ${…} stand for what s describes: it is expanded before anything is read.
func orVariable(s schema) schema {
	return schema{"anyOf": []any{s, schema{"$ref": variableRef}}}
}

// wholeKind is a whole number.
func wholeKind(least, most int64) kind {
	return func() schema { return orVariable(schema{"type": "integer", "minimum": least, "maximum": most}) }
}

// fractionKind is a number of units of 10^-places.
func fractionKind(places int, least, most int64) kind {
	return func() schema {
		bound := func(n int64) json.Number { return json.Number(spellDecimal(n, places)) }
		return orVariable(schema{"type": "number", "minimum": bound(least), "maximum": bound(most)})
	}
}

// textKind is any text that pattern matches. YAML makes numbers and booleans of some; here they are texts like others.
func textKind(pattern string) kind {
	return func() schema {
		return orVariable(schema{"type": []any{"string", "number", "boolean"}, "pattern": pattern})
	}
}

// stringKind is a text that is never a number.
func stringKind(pattern string) kind {
	return func() schema { return orVariable(schema{"type": "string", "pattern": pattern}) }
}

// wordKind is one of a list of words.
func wordKind(list ...string) kind {
	return func() schema { return orVariable(schema{"enum": list}) }
}

func boolKind() schema { return orVariable(schema{"type": "boolean"}) }

// durationUnit matches one number with a unit; the loader knows their bounds.
const durationUnit = `([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)`

func durationKind() schema {
	return orVariable(schema{"type": "string", "pattern": `^\+?(` + durationUnit + `)+$`, "examples": []any{"500ms", "5s", "2m"}})
}

func nameKind() schema {
	return orVariable(schema{"type": []any{"string", "number", "boolean"}, "pattern": `^\S+$`, "maxLength": maxName})
}

func listenKind() schema {
	return orVariable(schema{"type": "string", "pattern": `:(0|[1-9][0-9]{0,4})$`})
}

func zoneKind() schema {
	s := textKind(`.`)()
	s["not"] = schema{"const": "Local"}
	return s
}

// sizeKindTo is a number of bytes, at least a KiB.
func sizeKindTo(most int64) kind {
	return func() schema {
		return schema{"anyOf": []any{
			schema{"type": "integer", "minimum": 1 << 10, "maximum": most},
			schema{"type": "string", "pattern": `^[0-9]+ ?(B|KB|MB|GB|KiB|MiB|GiB)?$`, "examples": []any{"32MiB"}},
			schema{"$ref": variableRef},
		}}
	}
}

// listOf is a list of at least so many.
func listOf(of kind, least int, distinct bool) kind {
	return func() schema {
		s := schema{"type": "array", "items": of()}
		if least > 0 {
			s["minItems"] = least
		}
		if distinct {
			s["uniqueItems"] = true
		}
		return s
	}
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

// amountField is a whole number from least to most.
func amountField[T any](key, about string, least, most int64, at func(*T) *int64) field[T] {
	return field[T]{
		name: key, about: about, kind: wholeKind(least, most),
		read:  func(v value, into *T) { *at(into) = v.amount(least, most) },
		start: func(from *T) any { return *at(from) },
	}
}

// limitField is a whole number from 1. 0 is refused, because it would be read as no limit.
func limitField[T any](key, about string, at func(*T) *int64) field[T] {
	return field[T]{
		name: key, about: about, kind: wholeKind(1, maxAmount),
		read: func(v value, into *T) {
			*at(into) = v.limit("0 would be no limit; leave it out, or remove the keys to block")
		},
	}
}

// decimalField is a number with decimals, kept in units of 10^-places; a bad one reads as fallback.
func decimalField[T any](key, about string, places int, least, most, fallback int64, at func(*T) *int64) field[T] {
	return field[T]{
		name: key, about: about, kind: fractionKind(places, least, most),
		read:  func(v value, into *T) { *at(into) = v.decimal(places, least, most, fallback) },
		start: func(from *T) any { return json.Number(spellDecimal(*at(from), places)) },
	}
}

// durationField is a duration from 0 to most.
func durationField[T any](key, about string, most time.Duration, at func(*T) *time.Duration) field[T] {
	return field[T]{
		name: key, about: about, kind: durationKind,
		read:  func(v value, into *T) { *at(into) = v.duration(0, most) },
		start: func(from *T) any { return spellDuration(*at(from)) },
	}
}
