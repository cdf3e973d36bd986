package bpe

import (
	"runtime"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/tiktoken-go/tokenizer/codec"

	"github.com/llmgov/llmgov/governor/tokens"
)

const (
	// maxBody is the largest body that is looked at, and maxCounted how much of its
	// texts is counted: some 3 ms.
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
	once   sync.Once
	loaded atomic.Pointer[codecs]
}

// codecs is what a vocabulary does: *codec.Codec.
type codecs interface{ Count(string) (int, error) }

// New returns a Counter, which has loaded nothing yet.
func New() *Counter {
	return newCounter(func() codecs { return codec.NewO200kBase() }, func() codecs { return codec.NewCl100kBase() })
}

func newCounter(o200k, cl100k func() codecs) *Counter {
	c := &Counter{slots: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2))}
	c.o200k.make, c.cl100k.make = o200k, cl100k
	return c
}

// get returns the vocabulary, if it is there. Who asks first starts the loading, and does
// not wait for it.
func (v *vocabulary) get() codecs {
	if at := v.loaded.Load(); at != nil {
		return *at
	}
	v.once.Do(func() {
		go func() {
			made := v.make()
			v.loaded.Store(&made)
		}()
	})
	return nil
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
// formed and not nested too deeply. It reports false when it does not know, or not at once.
func (c *Counter) Count(model string, body []byte) (int64, bool) {
	v := c.of(model)
	if v == nil || len(body) > maxBody {
		return 0, false
	}
	vocabulary := v.get()
	if vocabulary == nil {
		return 0, false
	}
	select {
	case c.slots <- struct{}{}:
		defer func() { <-c.slots }()
	default:
		return 0, false
	}
	p := prompt{known: true, bare: strings.Contains(model, "embedding"), old: v == &c.cl100k}
	p.read(string(body))
	if !p.known {
		return 0, false
	}
	return p.count(vocabulary)
}

// count adds up the texts and what frames them.
func (p *prompt) count(v codecs) (int64, bool) {
	size := 0
	for _, text := range p.texts {
		size += len(text)
	}
	every := max(1, (size+maxCounted-1)/maxCounted) // 1: all
	n, counted, all, at, read := int64(0), int64(0), int64(0), 0, 0
	for _, text := range p.texts {
		for piece := range pieces(text) {
			weight := tokens.Weigh([]byte(piece))
			all += weight
			if at++; at%every != 0 || read >= maxCounted { // so many also where all others are short
				continue
			}
			read += len(piece)
			k, err := v.Count(piece)
			if err != nil {
				return 0, false
			}
			n, counted = n+int64(k), counted+weight
		}
	}
	if counted < all { // the rest is like what was counted
		n = int64(float64(n) * float64(all) / float64(max(1, counted)))
	}
	return max(0, n+p.frame), true
}
