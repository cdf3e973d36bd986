package durable

import (
	"iter"

	"github.com/llmgov/llmgov/governor/record"
)

// running are the admissions of calls in flight. They are in a slice, because a map
// would allocate each.
type running struct {
	at   map[uint64]int // by the name of the call
	list []record.Record
	free []int
}

func (c *running) begin(r *record.Record) {
	i := len(c.list)
	if n := len(c.free); n > 0 {
		i = c.free[n-1]
		c.free = c.free[:n-1]
		c.list[i] = *r
	} else {
		c.list = append(c.list, *r)
	}
	c.at[r.Call] = i
}

// grow raises the booking of a call.
func (c *running) grow(r *record.Record) {
	if i, ok := c.at[r.Call]; ok {
		c.list[i].Grow(r)
	}
}

func (c *running) end(call uint64) {
	if i, ok := c.at[call]; ok {
		delete(c.at, call)
		c.free = append(c.free, i)
	}
}

func (c *running) all() iter.Seq2[uint64, record.Record] {
	return func(yield func(uint64, record.Record) bool) {
		for call, i := range c.at {
			if !yield(call, c.list[i]) {
				return
			}
		}
	}
}
