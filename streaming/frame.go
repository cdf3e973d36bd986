package streaming

import "bytes"

// frame is what stands around the remembered chunk in its event. An event that has the same around a chunk of the pattern is
// found and counted in one look, without searching for its end before. The zero value is that of no event.
type frame struct {
	tried  bool   // whether the event has one
	before []byte // the chunk
	behind []byte // the chunk, up to and including the blank line; empty if the event has no frame
}

// forget lets the next event have the frame.
func (f *frame) forget() {
	f.tried = false
	f.behind = f.behind[:0]
}

// frameEnd ends the events that have a frame. Of other ends, a part may come late.
var frameEnd = []byte("\n\n")

// set takes over what stands around a chunk in its event, unless it was tried before. The event has a frame if the chunk
// stands in a line of data: then another chunk, if it has no line ends, makes the same lines of it.
func (f *frame) set(event, chunk []byte) {
	if f.tried {
		return
	}
	f.tried = true
	before, behind, found := bytes.Cut(event, chunk)
	line := before[bytes.LastIndexAny(before, "\r\n")+1:]
	first := bytes.HasPrefix(event, byteOrderMark) // which stands nowhere else
	if first || !found || !bytes.HasPrefix(line, []byte("data:")) || !bytes.HasSuffix(behind, frameEnd) {
		return
	}
	f.before = append(f.before[:0], before...)
	f.behind = append(f.behind[:0], behind...)
}
