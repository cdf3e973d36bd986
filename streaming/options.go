package streaming

import "time"

// progressEvery is how often Progress is called at most.
const progressEvery = 250 * time.Millisecond

// Options configures a Body. All callbacks may be nil. They run on the goroutine of the Read or
// Close that caused them, or of the next one; Interrupt and Quiet run on a goroutine of their own,
// and Quiet may come when all is over. None of them runs under a lock.
type Options struct {
	WithholdUsage bool                   // keep the extra usage chunk (empty choices) from the client
	MaxEvent      int                    // largest event that is read, in bytes; 0 means DefaultMaxEvent
	Idle          time.Duration          // longest wait for bytes from upstream; 0 means for ever
	Interrupt     func(error)            // cancels the upstream request; nil: its body is closed
	ErrorEvent    func(err error) []byte // a complete event for the client when upstream breaks off
	Quiet         func()                 // once, if the first bytes take longer than 10 ms
	First         func()                 // once, after the first delta was passed on
	Progress      func(deltas int64)     // while deltas flow, along with First and then at most every 250 ms
	End           func(Result)           // once: at the terminal event, at the end, at a failure or on Close, whichever is first
}

// calls are callbacks that are due, to be made when the lock is free.
type calls struct {
	first    bool
	progress int64 // 0: none
}

// dueLocked notes the callbacks that the deltas of a Read make due.
func (b *Body) dueLocked() {
	if !b.told {
		b.told = true
		b.due.first = true
	}
	if b.opt.Progress == nil {
		return
	}
	if now := time.Now(); b.progress.IsZero() || now.Sub(b.progress) >= progressEvery {
		b.progress = now
		b.due.progress = b.meter.Deltas()
	}
}

// takeDueLocked hands over the callbacks that are due.
func (b *Body) takeDueLocked() calls {
	due := b.due
	b.due = calls{}
	return due
}

func (c calls) run(opt *Options) {
	if c.first && opt.First != nil {
		opt.First()
	}
	if c.progress > 0 {
		opt.Progress(c.progress)
	}
}
