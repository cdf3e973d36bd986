package gateway

import (
	"bytes"
	"errors"
	"io"
	"mime/multipart"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/llmgov/llmgov/internal/objects"
)

// A batch is a file of calls that the upstream makes later, by itself. So the calls
// are checked when the file comes, and batches are made only of files that were checked.

const filesPath, uploadsPath, batchesPath = "/files", "/uploads", "/batches"

// isBatch reports whether a file of this purpose is meant for a batch.
func isBatch(purpose string) bool { return strings.EqualFold(strings.TrimSpace(purpose), "batch") }

// isInference reports whether a call of a batch is to a route of inference, which upstreams need
// not check.
func isInference(url string) bool { return routes[strings.TrimPrefix(url, "/v1")] != nil }

// maxCalls bounds a batch, because checking many short lines takes much longer than sending them.
// Providers take 50,000 to 100,000 calls.
const maxCalls = 100_000

// checkBatch checks a file of calls, and that a batch is made of a file that was checked.
func (c *call) checkBatch() *refusal {
	switch {
	case c.r.Method != http.MethodPost:
	case c.route.path == uploadsPath && isBatch(c.head.purpose):
		return invalid("purpose", "A file of calls cannot be uploaded in parts, for it could not be checked. Send it to /v1/files.")
	case c.route.path == filesPath && isBatch(c.head.purpose):
		return c.checkCalls()
	case c.route.path == batchesPath:
		if !isInference(c.head.endpoint) {
			return invalid("endpoint", "A batch cannot call "+quoted(brief(c.head.endpoint))+".")
		}
		found, _ := references(c.body) // which have been checked
		for _, ref := range found {
			if ref.key == "input_file_id" && !c.isBatchFile(ref.id) {
				return invalid(ref.key, "A batch is made of a file that was uploaded with purpose batch, and "+ref.id+" was not.")
			}
		}
	}
	return nil
}

// isBatchFile reports whether a file at the call's upstream was checked as one of calls.
func (c *call) isBatchFile(id string) bool {
	return slices.ContainsFunc(c.pool.upstreams, func(u *upstream) bool {
		e, _ := c.g.objects.Owner(objects.Key{Upstream: u.name, ID: id})
		if e.Kind != objects.BatchFile || !objects.Visible(e.Owner, c.tenant.Name) {
			return false
		}
		c.dearer(e.Model)
		return true
	})
}

// dearer notes a model that a batch asks for, if it is the dearest so far.
func (c *call) dearer(model string) {
	if len(model) > 256 {
		return // no provider has a model of such a name
	}
	price, known := c.world.snap.Price(model)
	old, _ := c.world.snap.Price(c.dearest)
	if known && (c.dearest == "" || price.Output > old.Output || price.Output == old.Output && price.Input > old.Input) {
		c.dearest = model
	}
}

// checkCalls checks the lines of each part of the form that may be the file.
func (c *call) checkCalls() *refusal {
	boundary, err := plainBoundary(c.r.Header.Get("Content-Type"))
	if err != nil {
		return invalid(err.param, err.what)
	}
	for parts := multipart.NewReader(bytes.NewReader(c.body), boundary); ; {
		part, err := parts.NextRawPart()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return invalid("", "The body is not valid multipart/form-data.")
		}
		if part.FileName() == "" && !strings.EqualFold(part.FormName(), "file") {
			continue
		}
		if part.Header.Get("Content-Transfer-Encoding") != "" {
			return invalid("file", "A file of calls with a Content-Transfer-Encoding cannot be checked. Send it as it is.")
		}
		text, err := io.ReadAll(part)
		if err != nil {
			return invalid("file", "The file broke off.")
		}
		n := 0
		for line := range bytes.Lines(text) {
			if n++; n > maxCalls {
				return invalid("file", "The file has more than "+strconv.Itoa(maxCalls)+" lines.")
			}
			if f := c.checkLine(bytes.TrimSpace(line)); f != nil {
				f.param, f.message = "file", "Line "+strconv.Itoa(n)+": "+f.message
				return f
			}
		}
	}
}

// checkLine checks one call of a file: its models, and the objects that it refers to.
func (c *call) checkLine(line []byte) *refusal {
	if len(line) == 0 {
		return nil
	}
	if bytes.IndexByte(line, '\r') >= 0 { // some readers end lines there
		return invalid("", "A carriage return must stand at a line's end.")
	}
	if err := wellFormed(line); err != nil {
		return invalid("", err.what)
	}
	var f *refusal
	w := walk{body: line}
	w.member = func(key, value string, depth int) {
		switch {
		case f != nil || depth > 2: // deeper down keys are the caller's own, as in schemas
		case strings.EqualFold(key, "model") && !c.mayUse(value):
			f = &refusal{status: http.StatusForbidden, code: codeModel, message: "Tenant " + c.tenant.Name + " may not use the model " + quoted(brief(value)) + "."}
		case strings.EqualFold(key, "model"):
			c.dearer(value)
		case strings.EqualFold(key, "conversation"):
			f = invalid("", "conversation is not supported.")
		case depth == 1 && strings.EqualFold(key, "method") && value != http.MethodPost:
			f = invalid("", "method must be POST.")
		case depth == 1 && strings.EqualFold(key, "url") && !isInference(value):
			f = invalid("", "A batch cannot call "+quoted(brief(value))+".")
		}
	}
	if err := w.run(); err != nil {
		return invalid(err.param, err.what)
	}
	others, err := othersOf(line)
	if err != nil {
		return invalid("", err.what)
	}
	for _, o := range others {
		if f == nil && !c.mayUse(o.model) {
			f = mayNot(c.tenant.Name, "", o.model)
		}
		c.dearer(o.model)
	}
	for _, ref := range w.found {
		if f == nil && !c.pin(ref.id) {
			f = noObject(ref.key, ref.id)
		}
	}
	return f
}
