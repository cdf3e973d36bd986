package gateway

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"mime/multipart"
)

// readForm reads the governed fields of a multipart body: the model, which must
// be there at most once.
func readForm(body []byte, contentType string) (*head, *badRequest) {
	kind, params, err := mime.ParseMediaType(contentType)
	if err != nil || kind != "multipart/form-data" || params["boundary"] == "" {
		return nil, bad("", "The body must be multipart/form-data with a boundary, not %q.", contentType)
	}
	h := &head{copies: 1}
	seen := map[string]bool{}
	for parts := multipart.NewReader(bytes.NewReader(body), params["boundary"]); ; {
		part, err := parts.NextRawPart()
		if errors.Is(err, io.EOF) {
			return h, nil
		}
		if err != nil {
			return nil, bad("", "The body is not valid multipart/form-data.")
		}
		name := part.FormName()
		if name != "model" && name != "stream" {
			continue
		}
		if seen[name] {
			return nil, bad(name, "The field %q is there twice; which of its values counts is ambiguous.", name)
		}
		seen[name] = true
		value, err := io.ReadAll(io.LimitReader(part, 257))
		if err != nil || len(value) == 0 || len(value) > 256 {
			return nil, bad(name, "%s must be 1 to 256 bytes long.", name)
		}
		if name == "model" {
			h.model = string(value)
		} else {
			h.stream = string(value) == "true"
		}
	}
}
