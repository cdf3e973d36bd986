package bpe

import (
	"cmp"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/llmgov/llmgov/governor/tokens"
)

const (
	// maxBody is the largest body that is looked at, and maxCounted how much of its
	// texts is counted: some 3 ms, or 4 at worst.
	maxBody    = 256 << 10
	maxCounted = 16 << 10
)

// Counter counts prompts. It is safe for concurrent use.
type Counter struct {
	slots         chan struct{} // taken while one counts
	o200k, cl100k vocabulary
}

// vocabulary is one that is loaded when it is first asked for.
type vocabulary struct {
	make   func() codecs
	asked  sync.Once // by who does not wait
	once   sync.Once
	loaded atomic.Pointer[codecs]
	ready  chan struct{} // closed once it is loaded
}

// codecs is what a vocabulary does: *encoding.
type codecs interface{ Count(string) (int, error) }

// New returns a Counter, which has loaded nothing yet.
func New() *Counter {
	return newCounter(loadO200k, loadCl100k)
}

func newCounter(o200k, cl100k func() codecs) *Counter {
	c := &Counter{slots: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2))}
	c.o200k = vocabulary{make: o200k, ready: make(chan struct{})}
	c.cl100k = vocabulary{make: cl100k, ready: make(chan struct{})}
	return c
}

// get returns the vocabulary, if it is there in time. Who asks first starts the loading.
func (v *vocabulary) get(patience time.Duration) codecs {
	if at := v.loaded.Load(); at != nil {
		return *at
	}
	v.asked.Do(func() { go v.wait() })
	if patience <= 0 {
		return nil
	}
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	select {
	case <-v.ready:
		return *v.loaded.Load()
	case <-timeout.C:
		return nil
	}
}

// wait returns the vocabulary, loaded by who asks first.
func (v *vocabulary) wait() codecs {
	v.once.Do(func() {
		if v.loaded.Load() == nil {
			made := v.make()
			v.loaded.Store(&made)
		}
		close(v.ready)
	})
	return *v.loaded.Load()
}

// of is the vocabulary of a model, or nil. Providers put an owner before the name, and
// tuned models have the name of what was tuned.
func (c *Counter) of(model string) *vocabulary {
	model = model[strings.LastIndexByte(model, '/')+1:]
	model = strings.TrimPrefix(model, "ft:")
	for _, family := range [...]struct {
		prefix string
		v      *vocabulary
	}{ // the longer prefix first
		{"gpt-4o", &c.o200k},
		{"chatgpt-4o", &c.o200k},
		{"gpt-4.1", &c.o200k},
		{"gpt-4.5", &c.o200k},
		{"gpt-5", &c.o200k},
		{"o1", &c.o200k},
		{"o3", &c.o200k},
		{"o4", &c.o200k},
		{"gpt-4", &c.cl100k},
		{"gpt-3.5", &c.cl100k},
		{"gpt-35", &c.cl100k}, // Azure's spelling
		{"text-embedding-3", &c.cl100k},
		{"text-embedding-ada-002", &c.cl100k},
	} {
		if rest, ok := strings.CutPrefix(model, family.prefix); ok && (rest == "" || strings.ContainsRune("-.:", rune(rest[0]))) {
			return family.v
		}
	}
	return nil
}

// Count is how many tokens the prompt in a JSON body has for a model, which must be well
// formed and not nested too deeply. It reports false when it does not know, or when the vocabulary is loaded, and others count,
// for longer than it may wait.
func (c *Counter) Count(model string, body []byte, patience time.Duration) (int64, bool) {
	v := c.of(model)
	if v == nil || len(body) > maxBody {
		return 0, false
	}
	began := time.Now()
	vocabulary := v.get(patience)
	if vocabulary == nil || !c.enter(patience-time.Since(began)) {
		return 0, false
	}
	defer func() { <-c.slots }()
	found, ok := c.count(model, body, v, vocabulary, false)
	return found.tokens, ok
}

// enter takes one of the slots, if one is free in time.
func (c *Counter) enter(patience time.Duration) bool {
	select {
	case c.slots <- struct{}{}:
		return true
	default:
	}
	if patience <= 0 {
		return false
	}
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	select {
	case c.slots <- struct{}{}:
		return true
	case <-timeout.C:
		return false
	}
}

// AtLeast is a number of tokens that the prompt in such a body has at the least, or 0 where
// that cannot be told. Unlike Count it waits, for the vocabulary and for others that count;
// takes bodies of any size; and answers for models whose vocabulary is not public, too.
func (c *Counter) AtLeast(model string, body []byte) int64 {
	v := c.of(model)
	foreign := v == nil
	if foreign {
		v = &c.o200k
	}
	vocabulary := v.wait()
	c.slots <- struct{}{}
	defer func() { <-c.slots }()
	found, ok := c.count(model, body, v, vocabulary, true)
	switch {
	case !ok:
		return 0
	case foreign:
		return found.tokens / 2 // no vocabulary in use says the same in half the tokens of the largest
	case !found.all:
		return found.tokens - found.tokens/4 // what was not counted may be easier than what was
	}
	return found.tokens
}

// Excerpt is how many tokens an excerpt of a body has as text of a model, or of one like it where the model's vocabulary is
// not public. It reports false while the vocabulary is loaded.
func (c *Counter) Excerpt(model string, x tokens.Excerpt) (int64, bool) {
	vocabulary := cmp.Or(c.of(model), &c.o200k).get(0)
	if vocabulary == nil {
		return 0, false
	}
	n, err := vocabulary.Count(string(x.Said()))
	return int64(n), err == nil
}

// found is how many tokens a prompt has, and whether all of it was counted.
type found struct {
	tokens int64
	all    bool
}

// count counts the prompt in a body.
func (c *Counter) count(model string, body []byte, v *vocabulary, loaded codecs, least bool) (found, bool) {
	p := prompt{known: true, least: least, bare: strings.Contains(model, "embedding"), old: v == &c.cl100k}
	p.read(string(body))
	if !p.known {
		return found{}, false
	}
	return p.count(loaded)
}

// count adds up the texts and what frames them.
func (p *prompt) count(v codecs) (found, bool) {
	size := 0
	for _, text := range p.texts {
		size += len(text)
	}
	every := max(1, (size+maxCounted-1)/maxCounted) // 1: all
	n := int64(0)
	counted := int64(0)
	all := int64(0)
	at := 0
	next := rand.IntN(every) // a caller who knew which are counted could put light ones there
	read := 0
	for _, text := range p.texts {
		for piece := range pieces(text) {
			weight := tokens.Weigh([]byte(piece))
			all += weight
			at++
			if at <= next || read >= maxCounted { // so many also where all others are short
				continue
			}
			next = (at-1)/every*every + every + rand.IntN(every)
			read += len(piece)
			k, err := v.Count(piece)
			if err != nil {
				return found{}, false
			}
			n = n + int64(k)
			counted = counted + weight
		}
	}
	if counted < all { // the rest is like what was counted
		n = int64(float64(n) * float64(all) / float64(max(1, counted)))
	}
	return found{max(0, n+p.frame), counted == all}, true
}
