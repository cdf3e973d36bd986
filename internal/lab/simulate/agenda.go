package simulate

import "time"

// step is the kind of a task.
type step uint8

const (
	arrive   step = iota // an open load's next request
	ask                  // a worker's next request
	retry                // a refused caller comes back
	expire               // a queued caller goes away
	beat                 // a running stream reports its progress
	first                // the first token of a running request comes
	finish               // a running request ends
	resize               // the model server can serve another number of calls at once
	lose                 // an upstream is gone
	ring                 // a timer of a process goes off
	look                 // a process looks whether to tell the store
	told                 // a beat comes to the store
	answered             // the store's answer comes back
	crash                // a process ends
	restart              // and another takes its place
)

// task is one thing due at a time. Tasks of the same time are done in the order
// in which they were planned, so that a run is the same every time.
type task struct {
	at    time.Duration
	order int64
	step  step
	leaf  int32
	phase int32
	row   int32 // of an arrive of a recorded load, that of its call
	call  *call
	stamp int32  // the attempt that an expire is meant for
	knee  int64  // of a resize
	loss  int32  // of a lose
	talk  *talk  // of an ask, that of the call before
	timer *timer // of a ring
	site  int32  // that all from look on are of

	letter *letter
}

func (t *task) before(u *task) bool {
	return t.at < u.at || t.at == u.at && t.order < u.order
}

// agenda is a binary heap of tasks.
type agenda struct {
	tasks []task
	made  int64
}

func (a *agenda) plan(t task) {
	a.made++
	t.order = a.made
	a.tasks = append(a.tasks, t)
	h := a.tasks
	for i := len(h) - 1; i > 0; {
		parent := (i - 1) / 2
		if !h[i].before(&h[parent]) {
			return
		}
		h[i], h[parent] = h[parent], h[i]
		i = parent
	}
}

// next takes out the first task; ok is false when there is none.
func (a *agenda) next() (first task, ok bool) {
	h := a.tasks
	if len(h) == 0 {
		return task{}, false
	}
	first = h[0]
	last := len(h) - 1
	h[0] = h[last]
	h[last] = task{} // lets go of its call
	h = h[:last]
	a.tasks = h
	for i := 0; ; {
		child := 2*i + 1
		if child >= last {
			return first, true
		}
		if child+1 < last && h[child+1].before(&h[child]) {
			child++
		}
		if !h[child].before(&h[i]) {
			return first, true
		}
		h[i], h[child] = h[child], h[i]
		i = child
	}
}
