package durable

import (
	"iter"

	"github.com/llmgov/llmgov/governor"
)

// running are the admissions of calls in flight. They are in a slice, because a map
// would allocate each.
type running struct {
	at   map[uint64]int // by the name of the call
	list []governor.Record
	free []int
}

func (c *running) begin(r *governor.Record) {
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
func (c *running) grow(r *governor.Record) {
	if i, ok := c.at[r.Call]; ok {
		began := &c.list[i].Booked.Pool
		for k := range began {
			began[k] = max(began[k], r.Booked.Pool[k])
		}
	}
}

func (c *running) end(call uint64) {
	if i, ok := c.at[call]; ok {
		delete(c.at, call)
		c.free = append(c.free, i)
	}
}

func (c *running) all() iter.Seq2[uint64, governor.Record] {
	return func(yield func(uint64, governor.Record) bool) {
		for call, i := range c.at {
			if !yield(call, c.list[i]) {
				return
			}
		}
	}
}
