package answers

import "io"

// Body masks secrets in a body as it passes, also those that lie across the borders of reads. Only
// bytes that may be the beginning of a secret wait for those that follow. It reads straight into the
// reader's buffer, and allocates nothing while that has room for a secret and none seems to begin at the end of a read.
type Body struct {
	io.ReadCloser
	secrets Secrets
	found   bool
	held    []byte // may be the beginning of a secret
	ready   []byte // searched; for readers whose buffer is too small to search in
	err     error  // comes behind held and ready
}

// NewBody wraps a body. Without secrets it returns the body itself.
func NewBody(body io.ReadCloser, secrets Secrets) io.ReadCloser {
	if secrets.longest == 0 {
		return body
	}
	return &Body{ReadCloser: body, secrets: secrets}
}

// Read implements io.Reader.
func (b *Body) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if len(b.ready) > 0 {
		return b.take(p)
	}
	if len(p) >= 2*b.secrets.longest {
		return b.fill(p)
	}
	buf := make([]byte, max(512, 2*b.secrets.longest))
	n, err := b.fill(buf)
	if n == 0 {
		return 0, err
	}
	b.ready = buf[:n]
	return b.take(p)
}

// Wait returns once a Read does not have to wait long, and true; or false at once if the body below cannot tell.
func (b *Body) Wait() bool {
	if len(b.ready) > 0 || b.err != nil {
		return true
	}
	below, ok := b.ReadCloser.(interface{ Wait() bool })
	return ok && below.Wait()
}

// Whole reports whether no Read waits, if the body below can tell.
func (b *Body) Whole() bool {
	below, ok := b.ReadCloser.(interface{ Whole() bool })
	return ok && below.Whole()
}

// Found reports whether what has been read had a secret.
func (b *Body) Found() bool { return b.found }

// take returns a part of what is ready.
func (b *Body) take(p []byte) (int, error) {
	n := copy(p, b.ready)
	b.ready = b.ready[n:]
	return n, nil
}

// fill reads into p, which has room for more than a secret. It returns what is certain to be none.
func (b *Body) fill(p []byte) (int, error) {
	for b.err == nil {
		n := copy(p, b.held)
		more, err := b.ReadCloser.Read(p[n:])
		text := p[:n+more]
		b.err = err
		b.held = b.held[:0]
		b.found = b.secrets.Hide(text) || b.found
		if err == nil {
			begun := b.secrets.begun(text)
			b.held = append(b.held, text[len(text)-begun:]...)
			text = text[:len(text)-begun]
		}
		if len(text) > 0 {
			return len(text), nil
		}
		if more == 0 {
			break // the reader below has nothing now, which it may say
		}
	}
	return 0, b.err
}
