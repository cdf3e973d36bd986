package stored

import (
	"bytes"
	"errors"
	"io"

	"github.com/llmgov/llmgov/streaming"
)

// Watcher is shown an answer before the caller can see it.
type Watcher interface {
	// Answer is shown a plain answer.
	Answer(text []byte)
	// Event is shown the data of an event.
	Event(data []byte)
}

// mostWatched bounds how much of a plain answer is held so that it is watched before the caller sees it: more
// than a response with several pictures has.
const mostWatched = 16 << 20

// watchedAnswer is a plain answer that is passed on once all of it is here and watched.
type watchedAnswer struct {
	io.ReadCloser
	by   Watcher
	text *bytes.Reader
	err  error // behind the text
}

// WatchAnswer shows a plain answer to a watcher. One that is larger than any response is passed on as it comes,
// without being shown.
func WatchAnswer(body io.ReadCloser, by Watcher) io.ReadCloser {
	return &watchedAnswer{ReadCloser: body, by: by}
}

func (a *watchedAnswer) Read(p []byte) (int, error) {
	if a.text == nil {
		text, err := io.ReadAll(io.LimitReader(a.ReadCloser, mostWatched))
		a.text = bytes.NewReader(text)
		a.err = err
		if len(text) < mostWatched {
			a.by.Answer(text)
		}
	}
	if a.text.Len() > 0 {
		return a.text.Read(p)
	}
	if a.err != nil {
		return 0, a.err
	}
	return a.ReadCloser.Read(p)
}

// watchedEvents is a streamed answer whose events are watched as they come. Its reader passes only
// whole events on, so nobody sees a part of one that was not watched.
type watchedEvents struct {
	io.ReadCloser
	by   Watcher
	scan streaming.Scanner
}

// WatchEvents shows the events of a streamed answer to a watcher.
func WatchEvents(body io.ReadCloser, by Watcher) io.ReadCloser {
	return &watchedEvents{ReadCloser: body, by: by}
}

// Wait returns once a Read does not have to wait long, and true; or false at once if the answer cannot tell.
func (e *watchedEvents) Wait() bool {
	answer, ok := e.ReadCloser.(interface{ Wait() bool })
	return ok && answer.Wait()
}

func (e *watchedEvents) Read(p []byte) (int, error) {
	n, err := e.ReadCloser.Read(p)
	if n > 0 {
		e.scan.Feed(p[:n])
		for ev, ok := e.scan.Next(); ok; ev, ok = e.scan.Next() {
			e.by.Event(ev.Data)
		}
	}
	if errors.Is(err, io.EOF) { // an event without its blank line
		if ev, ok := e.scan.Flush(); ok {
			e.by.Event(ev.Data)
		}
	}
	return n, err
}
