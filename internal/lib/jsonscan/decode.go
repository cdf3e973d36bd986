package jsonscan

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// KeyError says what is wrong with a JSON object, and at which key; "" is the object itself.
type KeyError struct{ Key, Text string }

func (e *KeyError) Error() string { return e.Text }

// Decode reads one JSON object whose keys are known, in lower case, and there once, on each level. encoding/json alone takes keys in any
// case, and the last of those that are there twice, so that others may read the same object differently. The error is a *KeyError.
func Decode(body []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return &KeyError{Text: err.Error()}
	}
	if _, err := d.Token(); err != io.EOF {
		return &KeyError{Text: "there is more after the JSON object; send nothing behind it"}
	}
	return checkKeys(body)
}

// keyLetters are those of all keys.
const keyLetters = "abcdefghijklmnopqrstuvwxyz_"

func checkKeys(body []byte) error {
	var open []map[string]bool // by their keys
	s := New(body)
	for t := s.Next(); t.Kind != End; t = s.Next() {
		switch t.Kind {
		case ObjectStart:
			open = append(open, map[string]bool{})
		case ObjectEnd:
			open = open[:len(open)-1]
		case Key:
			key := string(Unescape(nil, body[t.Start:t.End]))
			seen := open[len(open)-1]
			switch {
			case strings.Trim(key, keyLetters) != "":
				return &KeyError{key, fmt.Sprintf("the key %q differs from its name by case; write it in lower case", key)}
			case seen[key]:
				return &KeyError{key, fmt.Sprintf("the key %q is there twice", key)}
			}
			seen[key] = true
		default:
			if t.Kind == Invalid || len(open) == 0 {
				return &KeyError{Text: "the body is not an object of valid JSON in UTF-8"}
			}
		}
	}
	return nil
}
