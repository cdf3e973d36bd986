package admission

import (
	"sync"

	"github.com/llmgov/llmgov/escrow/lengths"
)

// outputs learns how many tokens answers have where nothing bounds them: pictures, speech,
// transcripts. It is safe for concurrent use.
type outputs struct {
	mu   sync.Mutex
	book *lengths.Book // guarded by mu
}

const (
	// longestOutput is more than any answer has.
	longestOutput = 1 << 20
	// nearlyAll is the part of calls that take no more than is held for the next one.
	nearlyAll = 0.95
	// maxOutputKinds bounds memory, at 9 kB each.
	maxOutputKinds = 1024
)

func newOutputs() *outputs {
	return &outputs{book: lengths.New(lengths.Config{MaxKinds: maxOutputKinds})}
}

// most is how many tokens an answer of that kind has at most, as far as calls have shown, or unknown.
func (o *outputs) most(kind lengths.Kind, unknown int64) int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.book.Knows(kind, longestOutput) {
		return unknown
	}
	return o.book.Quantile(kind, longestOutput, nearlyAll)
}

// observe learns from a whole answer.
func (o *outputs) observe(kind lengths.Kind, output int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	s := o.book.Start(kind, longestOutput)
	o.book.End(&s, output, true)
}
