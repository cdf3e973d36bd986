package form

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"io"
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
		e.add(p.Content)
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

func (e *Encoded) add(piece []byte) {
	e.pieces = append(e.pieces, piece)
	e.Size += int64(len(piece))
}

// Reader reads the form from its beginning.
func (e *Encoded) Reader() io.Reader {
	readers := make([]io.Reader, len(e.pieces))
	for i, piece := range e.pieces {
		readers[i] = bytes.NewReader(piece)
	}
	return io.MultiReader(readers...)
}
