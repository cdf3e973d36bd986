package strictyaml

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxName is the length a name may have, in bytes.
const MaxName = 128

// Unreadable stands for a name that was refused. No file can hold it as a name; checks pass over it.
const Unreadable = "\x00"

// Named reads a text that names something. A bad one reads as [Unreadable].
func (v Value) Named() string {
	text, ok := v.Scalar()
	if !ok {
		return Unreadable
	}
	if complaint := CheckName(text); complaint != "" {
		v.Problem("%s %s", v.Say(text), complaint)
		return Unreadable
	}
	return text
}

// CheckName complains about a name that would not survive as a metric label, in a URL or on a terminal.
func CheckName(name string) string {
	switch {
	case name == "":
		return "is not a name; write one"
	case len(name) > MaxName:
		return fmt.Sprintf("is longer than %d bytes; write a shorter name", MaxName)
	case !utf8.ValidString(name):
		return "is not UTF-8; write letters and digits"
	case strings.ContainsFunc(name, func(c rune) bool { return !unicode.IsPrint(c) || c == ' ' }):
		return "holds spaces or unprintable characters; write letters, digits and punctuation"
	case strings.Contains(name, "${"): // it would pass for the variable; nor could a file of keys hold it
		return "holds ${, and variables are not expanded in names; write the name itself"
	}
	return ""
}

// NameKind is a name.
func NameKind() Schema {
	return OrVariable(Schema{"type": []any{"string", "number", "boolean"}, "pattern": `^\S+$`, "maxLength": MaxName})
}

// MapOf is a mapping from names to values of a kind.
func MapOf(names string, of Kind, least int) Kind {
	return func() Schema {
		s := Schema{
			"type":                 "object",
			"propertyNames":        Schema{"pattern": names, "maxLength": MaxName},
			"additionalProperties": of(),
		}
		if least > 0 {
			s["minProperties"] = least
		}
		return s
	}
}
