package streaming

import (
	"io"
	"sync"
)

// WholeOptions configures NewWhole.
type WholeOptions struct {
	Text bool         // an answer may be any text, of which nothing is one, too: of what was spoken, say
	End  func(Result) // once: at the end, at a failure or on Close, whichever is first; may be nil
}

// Whole passes a plain JSON answer on untouched and finds the usage at its top level.
// Nothing of the answer is kept but that object, so the length of an answer does not matter. The answer
// should be one with a 2xx status: others have no usage to find. An error in place of an answer is an [UpstreamFailed], and nothing
// in place of one an [ErrEmpty].
type Whole struct {
	upstream io.ReadCloser
	end      func(Result)
	text     bool

	mu     sync.Mutex
	find   finder // guarded by mu, as all below
	closed bool
	ended  bool
}

// NewWhole returns a body that reads the answer of upstream.
func NewWhole(upstream io.ReadCloser, opt WholeOptions) *Whole {
	w := &Whole{}
	w.Reset(upstream, opt)
	return w
}

// Reset begins with another answer. Nobody may read the one before any more.
func (w *Whole) Reset(upstream io.ReadCloser, opt WholeOptions) {
	find := finder{limit: maxUsage, found: again(w.find.found), kept: again(w.find.kept)}
	*w = Whole{upstream: upstream, end: opt.End, text: opt.Text, find: find}
}

// again is the memory of a usage object for the next one, unless that is much more than most need.
func again(object []byte) []byte {
	const most = 1 << 10
	if cap(object) > most {
		return nil
	}
	return object[:0]
}

// Read passes upstream's bytes and its error on.
func (w *Whole) Read(p []byte) (int, error) {
	n, err := w.upstream.Read(p)
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return 0, ErrClosed
	}
	w.find.feed(p[:n])
	var res Result
	ends := false
	if err != nil {
		res, ends = w.endLocked(err)
	}
	w.mu.Unlock()
	if ends {
		w.tell(res)
	}
	return n, err
}

// Close ends the answer, if it has not ended, and closes upstream.
func (w *Whole) Close() error {
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return nil
	}
	w.closed = true
	res, ends := w.endLocked(ErrClosed)
	w.mu.Unlock()
	err := w.upstream.Close()
	if ends {
		w.tell(res)
	}
	return err
}

// endLocked returns the result, the first time it is called, which the caller is to tell.
func (w *Whole) endLocked(err error) (res Result, ends bool) {
	if w.ended {
		return Result{}, false
	}
	w.ended = true
	if string(w.find.object.bytes()) != "batch" { // which was metered call by call, if at all, and tells at each look
		c, reported := readCounts(w.find.found)
		res.Usage = c.usage()
		res.Reported = reported && !(c.noAnswer() && (w.find.said || w.find.filled && res.Usage.Input == 0))
		res.NoInput = res.Reported && res.Usage.ofOutput()
		w.find.ran.addTo(&res.Usage)
		if tier := w.find.tier.bytes(); len(tier) > 0 {
			res.Usage.Tier = tierOf(tier)
		}
	}
	if err == io.EOF && (w.find.state == before && !w.text || w.find.nothing()) {
		res.Cause, res.Err = Truncated, ErrEmpty
		return res, true
	}
	failed := w.find.failed()
	produced := !failed || w.find.filled || w.find.said
	ended := failed || err == io.EOF
	if produced && ended && !res.Reported {
		res.Text = max(1, w.find.texts)
	}
	res.Cause, res.Err = verdict(w.find.state == behind, err == io.EOF, failed, false, err)
	return res, true
}

// tell makes the result known.
func (w *Whole) tell(res Result) {
	if w.end != nil {
		w.end(res)
	}
}
