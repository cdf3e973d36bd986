package form

import (
	"crypto/rand"
	"encoding/hex"
	"io"
	"slices"

	"github.com/llmgov/llmgov/internal/lib/splice"
)

// Encoded is a form as it is sent.
type Encoded struct {
	Type   string // its Content-Type
	Size   int64
	pieces [][]byte
}

// Encode writes a form, with a boundary of its own. Contents are not copied, so they must not change
// while it is read.
func (f *Form) Encode() *Encoded {
	boundary := newBoundary()
	e := &Encoded{Type: "multipart/form-data; boundary=" + boundary}
	end := "\r\n"
	lead := "--"
	for i := range f.Parts {
		p := &f.Parts[i]
		text := lead + boundary + end + `Content-Disposition: form-data; name="` + p.Name + `"`
		if p.IsFile() {
			text += `; filename="` + p.Filename + `"` + end + "Content-Type: " + p.Type
		}
		e.add([]byte(text + end + end))
		e.addContent(p)
		lead = end + "--"
	}
	e.add([]byte(lead + boundary + "--" + end))
	return e
}

// newBoundary draws 128 bits, which nobody can put into a content. They are written in hexadecimal digits,
// because formidable takes a form with json in its Content-Type for JSON.
func newBoundary() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// addContent adds the content of a part with its edits, in pieces: contents are large.
func (e *Encoded) addContent(p *Part) {
	edits := slices.Clone(p.Edits)
	splice.Sort(edits)
	at := 0
	for _, edit := range edits {
		e.add(p.Content[at:edit.Start])
		e.add([]byte(edit.Text))
		at = edit.End
	}
	e.add(p.Content[at:])
}

func (e *Encoded) add(piece []byte) {
	if len(piece) == 0 {
		return
	}
	e.pieces = append(e.pieces, piece)
	e.Size += int64(len(piece))
}

// Reader reads the form from its beginning.
func (e *Encoded) Reader() io.Reader { return &reader{pieces: e.pieces} }

// reader reads pieces one after the other, and lets them go at the end.
type reader struct {
	pieces [][]byte
	at     int // in the first of them
}

func (r *reader) Read(p []byte) (n int, err error) {
	for n < len(p) {
		if len(r.pieces) == 0 {
			r.pieces = nil
			break
		}
		m := copy(p[n:], r.pieces[0][r.at:])
		n += m
		r.at += m
		if r.at == len(r.pieces[0]) {
			r.pieces = r.pieces[1:]
			r.at = 0
		}
	}
	if n == 0 && len(p) > 0 {
		return 0, io.EOF
	}
	return n, nil
}
