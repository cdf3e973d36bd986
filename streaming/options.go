package streaming

import "time"

// progressEvery is how often Progress is told of deltas.
const progressEvery = 250 * time.Millisecond

// Options configures a Body. All callbacks may be nil. They run on the goroutine of the Read or Close that
// brought them about, Interrupt on one of its own, and none of them under a lock.
type Options struct {
	WithholdUsage bool                   // keep the extra usage chunk (empty choices) from the client
	MaxEvent      int                    // largest event that is read, in bytes; 0 means DefaultMaxEvent
	Idle          time.Duration          // longest wait for bytes from upstream; 0 means for ever
	Interrupt     func(error)            // cancels the upstream request; nil: its body is closed
	ErrorEvent    func(err error) []byte // a complete event for the client when upstream breaks off
	First         func()                 // at the first delta
	Progress      func(deltas int64)     // while deltas flow, at most every 250 ms
	End           func(Result)           // once: at the terminal event, at the end, at a failure or on Close, whichever is first
}

// calls are the callbacks due after a Read, made when the lock is free.
type calls struct {
	first    bool
	progress int64 // 0: none
	end      func()
}

func (b *Body) callsLocked() (c calls) {
	c.first = !b.told
	b.told = true
	if b.opt.Progress == nil {
		return c
	}
	if now := time.Now(); b.progress.IsZero() || now.Sub(b.progress) >= progressEvery {
		b.progress, c.progress = now, b.meter.Deltas()
	}
	return c
}

func (c calls) run(opt *Options) {
	if c.first && opt.First != nil {
		opt.First()
	}
	if c.progress > 0 {
		opt.Progress(c.progress)
	}
	if c.end != nil {
		c.end()
	}
}
