// Package gobs reads many values that were each written by a gob.Encoder of its own.
//
// Gob writes a description of the type before such a value. To take that in takes ten times as long as the value, so decoders are kept that
// have read one, and read values alone from then on.
package gobs

import (
	"bytes"
	"encoding/gob"
	"math/bits"
	"sync"
)

// decoder is one that has read a description.
type decoder struct {
	in  bytes.Reader
	gob *gob.Decoder
}

// decoders are those that are not in use, by description.
type decoders struct {
	mu   sync.Mutex
	idle map[string][]*decoder // guarded by mu
}

// mostDescriptions is how many descriptions are known at most. There is one of each type in each release, and in processes that came upon
// types in another order.
const mostDescriptions = 64

var all = decoders{idle: map[string][]*decoder{}}

// Decode reads a value that a gob.Encoder of its own wrote.
func Decode(b []byte, value any) error {
	description := describes(b)
	d := all.take(description)
	if d == nil {
		d = &decoder{}
		d.gob = gob.NewDecoder(&d.in)
		d.in.Reset(b)
	} else {
		d.in.Reset(b[len(description):])
	}
	if err := d.gob.Decode(value); err != nil {
		return err
	}
	if len(description) > 0 {
		d.in.Reset(nil)
		all.put(description, d)
	}
	return nil
}

// take returns a decoder that has read a description, for one reader alone; nil if there is none.
func (p *decoders) take(description []byte) *decoder {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := p.idle[string(description)]
	if len(list) == 0 {
		return nil
	}
	last := len(list) - 1
	d := list[last]
	p.idle[string(description)] = list[:last]
	return d
}

func (p *decoders) put(description []byte, d *decoder) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.idle) >= mostDescriptions {
		clear(p.idle)
	}
	p.idle[string(description)] = append(p.idle[string(description)], d)
}

// describes is the description with which a value begins: all messages before the one of the value, which are those that tell of types with
// negative numbers. It is empty if they cannot be told apart.
func describes(b []byte) []byte {
	at := 0
	for {
		length, numberAt := number(b, at)
		id, read := number(b, numberAt)
		if read < 0 || length > uint64(len(b)-numberAt) {
			return nil
		}
		const negative = 1
		if id&negative == 0 {
			return b[:at]
		}
		at = numberAt + int(length)
	}
}

// number is the number that begins at a place, as gob writes those without a sign, and where it ends: -1 if nowhere.
func number(b []byte, at int) (x uint64, end int) {
	if at < 0 || at >= len(b) {
		return 0, -1
	}
	first := b[at]
	at++
	if first < 1<<7 {
		return uint64(first), at
	}
	length := -int(int8(first))
	if length > bits.UintSize/8 || length > len(b)-at {
		return 0, -1
	}
	for _, c := range b[at : at+length] {
		x = x<<8 | uint64(c)
	}
	return x, at + length
}
