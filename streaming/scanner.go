package streaming

import "bytes"

// DefaultMaxEvent is the default of Scanner.MaxEvent, in bytes.
const DefaultMaxEvent = 1 << 20

// Event is one block of an event stream. Its slices are valid until the next call to the Scanner.
type Event struct {
	Raw      []byte // the bytes as they came, up to and including the blank line
	Name     []byte // value of the last "event" field
	Data     []byte // values of the "data" fields joined by LF; nil when there were none
	Error    []byte // value of the last "error" field, which llama.cpp writes in place of data; nil without
	Oversize bool   // Raw is a piece of an event over MaxEvent, which is not read
}

// Scanner splits an event stream, fed in arbitrary pieces, into events. The raw bytes of all events, one
// after another, are the bytes that were fed. Events that lie whole in a piece are not copied.
//
// A blank line made by a lone CR at the end of what is known may turn out to be the first half of CRLF. The
// event is not delayed for that; the late LF then makes a blank line, an event of its own with no data.
//
// The zero value is ready to use.
type Scanner struct {
	// MaxEvent is the largest event, in bytes, that is kept together and read. 0 means DefaultMaxEvent.
	MaxEvent int

	in   []byte // the piece last fed
	at   int    // in[:at] has been delivered or moved to buf
	pos  int    // in[:pos] has been searched for the end of the event
	end  int    // end of the event in in, when found; else 0
	eol  lineEnds
	buf  []byte // head of an event whose rest is not known yet
	join []byte // data of several lines

	midLine bool // pos stands inside a line
	afterCR bool // the line before pos ended in CR: an LF at pos belongs to it
	over    bool // pieces of the current event have been delivered as Oversize
	spent   bool // buf was delivered by the last call
	started bool // something was delivered: no byte order mark can follow
}

// Feed gives the scanner the next bytes. They must stay unchanged until Next has reported false, which it
// should do before Feed is called again.
func (s *Scanner) Feed(p []byte) {
	if s.at < len(s.in) {
		p = append(s.in[s.at:len(s.in):len(s.in)], p...)
		s.pos = s.pos - s.at
		s.end = max(0, s.end-s.at)
	} else {
		s.pos = 0
		s.end = 0
	}
	s.in = p
	s.at = 0
	s.eol = lineEnds{-1, -1}
}

// Next returns the next event, and false when more bytes are needed to complete one.
func (s *Scanner) Next() (Event, bool) {
	s.drop()
	if s.at == len(s.in) {
		return Event{}, false
	}
	end, found := s.boundary()
	if s.over {
		return s.piece(end, found), true
	}
	if s.size(end, found) > s.maxEvent() {
		return s.outgrown(end, found), true
	}
	if !found {
		s.buf = append(s.buf, s.in[s.at:]...)
		s.at = len(s.in)
		return Event{}, false
	}
	raw := s.in[s.at:end]
	if len(s.buf) > 0 {
		s.buf = append(s.buf, raw...)
		s.spent = true
		raw = s.buf
	}
	s.consume(end)
	return s.parse(raw), true
}

// ahead returns the fed bytes that were not delivered, if they begin with an event.
func (s *Scanner) ahead() []byte {
	s.drop()
	if len(s.buf) > 0 || s.over {
		return nil
	}
	return s.in[s.at:]
}

// Flush returns the rest when no more bytes will come: the last event without its blank line, which may
// also be half of one.
func (s *Scanner) Flush() (Event, bool) {
	s.drop()
	rest := len(s.buf) > 0
	s.midLine = false
	s.afterCR = false
	s.over = false
	if !rest {
		return Event{}, false
	}
	s.spent = true
	return s.parse(s.buf), true
}

// boundary searches the fed bytes for the blank line that ends the current event. Repeated calls cost
// nothing: each byte is searched once, however small the pieces.
func (s *Scanner) boundary() (end int, found bool) {
	if s.end > 0 {
		return s.end, true
	}
	for s.pos < len(s.in) {
		c := s.in[s.pos]
		if s.afterCR {
			s.afterCR = false
			if c == '\n' {
				s.pos++
				continue
			}
		}
		if !s.midLine && (c == '\n' || c == '\r') {
			s.pos++
			if c == '\r' && s.pos < len(s.in) && s.in[s.pos] == '\n' {
				s.pos++
			}
			s.end = s.pos
			return s.end, true
		}
		s.pos = s.eol.next(s.in, s.pos)
		s.midLine = s.pos == len(s.in)
		if !s.midLine {
			s.afterCR = s.in[s.pos] == '\r'
			s.pos++
		}
	}
	return s.pos, false
}

// size counts the bytes of the event so far. The LF of a closing CRLF is left out: whether the
// event is read must not depend on whether that LF came together with its CR.
func (s *Scanner) size(end int, found bool) int {
	n := len(s.buf) + end - s.at
	if found && end-s.at >= 2 && s.in[end-1] == '\n' && s.in[end-2] == '\r' {
		n--
	}
	return n
}

// outgrown starts to deliver an event in pieces. What was kept of it goes first and alone: joined
// with the fed bytes, the memory it takes would depend on the size of a piece.
func (s *Scanner) outgrown(end int, found bool) Event {
	s.started = true
	s.over = true
	if len(s.buf) == 0 {
		return s.piece(end, found)
	}
	s.spent = true
	return Event{Raw: s.buf, Oversize: true}
}

func (s *Scanner) piece(end int, found bool) Event {
	raw := s.in[s.at:end]
	s.over = !found
	if found {
		s.consume(end)
	} else {
		s.at = end
	}
	return Event{Raw: raw, Oversize: true}
}

// consume moves behind the end of an event.
func (s *Scanner) consume(end int) {
	s.at = end
	s.pos = end
	s.end = 0
	s.midLine = false
	s.afterCR = false
}

// drop forgets the buffered bytes that the last call delivered.
func (s *Scanner) drop() {
	if s.spent {
		s.buf = s.buf[:0]
		s.spent = false
	}
}

func (s *Scanner) maxEvent() int {
	if s.MaxEvent > 0 {
		return s.MaxEvent
	}
	return DefaultMaxEvent
}

// parse reads the fields of a whole event.
func (s *Scanner) parse(raw []byte) Event {
	ev := Event{Raw: raw}
	text := raw
	if !s.started {
		s.started = true
		text = bytes.TrimPrefix(text, byteOrderMark)
	}
	eol := lineEnds{-1, -1}
	several := false
	for i := 0; i < len(text); {
		end := eol.next(text, i)
		line := text[i:end]
		i = end + 1
		if value, ok := field(line, "data"); ok {
			switch {
			case ev.Data == nil:
				ev.Data = value
			case !several:
				several = true
				s.join = append(s.join[:0], ev.Data...)
				fallthrough
			default:
				s.join = append(append(s.join, '\n'), value...)
				ev.Data = s.join
			}
		} else if value, ok := field(line, "event"); ok {
			ev.Name = value
		} else if value, ok := field(line, "error"); ok {
			ev.Error = value
		}
	}
	return ev
}

// field returns the value of a line that has the given field name. It is never nil when ok.
func field(line []byte, name string) (value []byte, ok bool) {
	if len(line) < len(name) || string(line[:len(name)]) != name {
		return nil, false
	}
	rest := line[len(name):]
	if len(rest) == 0 {
		return rest, true
	}
	if rest[0] != ':' {
		return nil, false
	}
	rest = rest[1:]
	if len(rest) > 0 && rest[0] == ' ' {
		rest = rest[1:]
	}
	return rest, true
}

// lineEnds finds the ends of lines in a text from left to right. It remembers the next LF and the
// next CR separately: searching for both anew for each line would be quadratic in a text that has
// only one of them.
type lineEnds struct{ lf, cr int }

func (e *lineEnds) next(b []byte, from int) int {
	if e.lf < from {
		e.lf = indexFrom(b, from, '\n')
	}
	if e.cr < from {
		e.cr = indexFrom(b, from, '\r')
	}
	return min(e.lf, e.cr)
}

func indexFrom(b []byte, from int, c byte) int {
	if i := bytes.IndexByte(b[from:], c); i >= 0 {
		return from + i
	}
	return len(b)
}
