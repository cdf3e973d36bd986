package upstreams

import (
	"bytes"
	"maps"
	"sync"
	"time"
)

// Addition is a set of what llmgov adds to bodies, and some servers refuse.
type Addition uint8

// The additions, all to chat or completions.
const (
	AddedUsage Addition = 1 << iota // stream_options.include_usage, without which the usage of a stream is estimated
	AddedBound                      // max_completion_tokens, in whose place older servers have max_tokens
)

// Named are those of a that a text names.
func (a Addition) Named(text []byte) (named Addition) {
	if bytes.Contains(text, []byte("stream_options")) || bytes.Contains(text, []byte("include_usage")) {
		named |= AddedUsage
	}
	if bytes.Contains(text, []byte("max_completion_tokens")) {
		named |= AddedBound
	}
	return a & named
}

// Additions are what servers of models have refused. The zero value is ready to use, by any goroutine.
type Additions struct {
	mu      sync.Mutex
	refused map[string]refusal // guarded by mu: by model
}

type refusal struct {
	what  Addition
	until time.Time
}

const (
	// mostRefused bounds the models that are remembered.
	mostRefused = 256
	// refusedFor is how long a refusal is believed: servers are replaced by newer ones.
	refusedFor = 24 * time.Hour
)

// Refused are the additions that calls of a model go without.
func (a *Additions) Refused(now time.Time, model string) Addition {
	a.mu.Lock()
	defer a.mu.Unlock()
	if f := a.refused[model]; now.Before(f.until) {
		return f.what
	}
	return 0
}

// Refuse notes that additions to a call of a model were refused. It reports whether that is news.
func (a *Additions) Refuse(now time.Time, model string, what Addition) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	maps.DeleteFunc(a.refused, func(_ string, f refusal) bool { return !now.Before(f.until) })
	before := a.refused[model].what
	if before&what == what || len(a.refused) >= mostRefused {
		return false
	}
	if a.refused == nil {
		a.refused = map[string]refusal{}
	}
	a.refused[model] = refusal{before | what, now.Add(refusedFor)}
	return true
}
