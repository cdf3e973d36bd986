package reserveserver

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/llmgov/llmgov/governor/client"
	"github.com/llmgov/llmgov/internal/doors/admissionserver"
	"github.com/llmgov/llmgov/internal/lib/jsonscan"
	"github.com/llmgov/llmgov/internal/run/admission/ask"
)

// bodyPatience is the time that a client has to send its body.
const bodyPatience = 10 * time.Second

// read reads a body. Afterwards the client may be silent for as long as it waits.
func read(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if encoding := strings.Join(r.Header["Content-Encoding"], ", "); encoding != "" && !strings.EqualFold(encoding, "identity") {
		return nil, &client.Refusal{
			Status: http.StatusUnsupportedMediaType, Code: ask.CodeInvalid, Header: http.Header{},
			Message: fmt.Sprintf("A body with Content-Encoding %.100q is not read here. Send it as it is.", encoding),
		}
	}
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(bodyPatience))
	body, err := io.ReadAll(io.LimitReader(r.Body, admissionserver.MostRequest+1))
	_ = control.SetReadDeadline(time.Time{})
	switch {
	case err != nil:
		return nil, invalid("", "the body could not be read")
	case len(body) > admissionserver.MostRequest:
		return nil, &client.Refusal{
			Status: http.StatusRequestEntityTooLarge, Code: ask.CodeTooLarge, Message: "The body has more than 64 KiB.", Header: http.Header{},
		}
	}
	return body, nil
}

// decode reads one JSON object in which every key must be known. No body is an empty object.
func decode(body []byte, into any) error {
	if len(body) == 0 {
		return nil
	}
	err := jsonscan.Decode(body, into)
	if wrong, ok := errors.AsType[*jsonscan.KeyError](err); ok {
		return invalid(wrong.Key, "%s", wrong.Text)
	}
	return err
}
