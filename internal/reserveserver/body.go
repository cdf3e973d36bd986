package reserveserver

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/llmgov/llmgov/governor/client"
	"github.com/llmgov/llmgov/internal/admission"
	"github.com/llmgov/llmgov/internal/admissionserver"
	"github.com/llmgov/llmgov/internal/jsonscan"
)

// bodyPatience is the time that a client has to send its body.
const bodyPatience = 10 * time.Second

// read reads a body. Afterwards the client may be silent for as long as it waits.
func read(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(bodyPatience))
	body, err := io.ReadAll(io.LimitReader(r.Body, admissionserver.MostRequest+1))
	_ = control.SetReadDeadline(time.Time{})
	switch {
	case err != nil:
		return nil, invalid("", "the body could not be read")
	case len(body) > admissionserver.MostRequest:
		return nil, &client.Refusal{
			Status: http.StatusRequestEntityTooLarge, Code: admission.CodeTooLarge, Message: "The body has more than 64 KiB.", Header: http.Header{},
		}
	}
	return body, nil
}

// decode reads one JSON object in which every key must be known. No body is an empty object.
func decode(body []byte, into any) error {
	if len(body) == 0 {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return invalid("", "%v", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return invalid("", "there is something behind the object")
	}
	return checkKeys(body)
}

// checkKeys refuses objects that JSON readers read differently, as the gateway does: encoding/json takes a key in any case, and the last of
// those that are there twice.
func checkKeys(body []byte) error {
	var open []map[string]bool // by their keys
	s := jsonscan.New(body)
	for t := s.Next(); t.Kind != jsonscan.End; t = s.Next() {
		switch t.Kind {
		case jsonscan.ObjectStart:
			open = append(open, map[string]bool{})
		case jsonscan.ObjectEnd:
			open = open[:len(open)-1]
		case jsonscan.Key:
			key := string(jsonscan.Unescape(nil, body[t.Start:t.End]))
			seen := open[len(open)-1]
			switch {
			case strings.Trim(key, keyLetters) != "":
				return invalid(key, "the key %q differs from its name by case; write it in lower case", key)
			case seen[key]:
				return invalid(key, "the key %q is there twice", key)
			}
			seen[key] = true
		default:
			if t.Kind == jsonscan.Invalid || len(open) == 0 {
				return invalid("", "the body is not an object of valid JSON in UTF-8")
			}
		}
	}
	return nil
}

// keyLetters are those of all keys.
const keyLetters = "abcdefghijklmnopqrstuvwxyz_"
