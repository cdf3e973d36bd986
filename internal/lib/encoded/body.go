package encoded

import (
	"compress/gzip"
	"io"
)

// Body reads a body of a known encoding as it was before, as it comes. Nothing is read of it before the first Read. It fails with a
// [Broken], or with the body's own error.
func Body(encoding string, body io.ReadCloser) io.ReadCloser {
	return &decoded{encoding: encoding, from: source{ReadCloser: body}}
}

type decoded struct {
	encoding string
	from     source
	decoder  decoder // nil before the first Read
}

func (d *decoded) Read(p []byte) (n int, err error) {
	if d.decoder == nil {
		d.decoder = new(gzip.Reader)
		if d.encoding == "zstd" {
			d.decoder = newZstd(mostAnswerWindow)
		}
		err = d.decoder.Reset(&d.from)
	}
	if err == nil {
		n, err = d.decoder.Read(p)
	}
	switch {
	case err == nil, err == io.EOF: // also of an answer without a body
		return n, err
	case d.from.err != nil && d.from.err != io.EOF:
		return n, d.from.err
	}
	return n, &Broken{d.encoding, err}
}

func (d *decoded) Close() error { return d.from.Close() }

// source keeps the error of a body, for which decoders may return others.
type source struct {
	io.ReadCloser
	err error
}

func (s *source) Read(p []byte) (n int, err error) {
	n, s.err = s.ReadCloser.Read(p)
	return n, s.err
}
