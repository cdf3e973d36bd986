package mock

import (
	"errors"
	"net/http"
	"strconv"
	"time"
)

// sse writes server-sent events. Events gather in buf until flush.
type sse struct {
	buf []byte
	w   http.ResponseWriter
	rc  *http.ResponseController

	eol      string
	comments bool // a ": ping" before each event
	ids      bool // an id line in each event
	times    bool // the ids are the time
	sent     int64
}

// open begins an event up to its data, which the caller appends to buf. The name "" leaves the
// event line out.
func (s *sse) open(name string) {
	if s.comments {
		s.line(": ping")
		s.line("")
	}
	if s.ids {
		s.buf = append(s.buf, "id: "...)
		id := s.sent
		if s.times {
			id = time.Now().UnixNano()
		}
		s.buf = strconv.AppendInt(s.buf, id, 10)
		s.line("")
	}
	s.sent++
	if name != "" {
		s.buf = append(s.buf, "event: "...)
		s.line(name)
	}
	s.buf = append(s.buf, "data: "...)
}

// close ends an event.
func (s *sse) close() {
	s.line("")
	s.line("")
}

func (s *sse) line(text string) {
	s.buf = append(s.buf, text...)
	s.buf = append(s.buf, s.eol...)
}

// flush sends the gathered events. An error means that the client has left.
func (s *sse) flush() error {
	if _, err := s.w.Write(s.buf); err != nil {
		return err
	}
	s.buf = s.buf[:0]
	if err := s.rc.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	return nil
}

// flood sends one event that does not end: 8 MiB without a line break, against readers that
// gather a whole line before they look at it.
func (s *sse) flood() error {
	s.open("")
	if err := s.flush(); err != nil {
		return err
	}
	for range 32 << 10 {
		s.buf = append(s.buf, 'x')
	}
	piece := s.buf
	for range 8 << 20 / len(piece) {
		s.buf = piece
		if err := s.flush(); err != nil {
			return err
		}
	}
	return nil
}
