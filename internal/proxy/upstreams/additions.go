package upstreams

import (
	"bytes"
	"maps"
	"regexp"
	"strings"
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

var additions = [...]Addition{AddedUsage, AddedBound}

// Words is a set of the words by which errors refuse additions.
type Words uint8

// word is one of them. A member of that name without a value, or of which a body is cut off, says nothing.
type word struct {
	text   []byte
	of     Addition
	member *regexp.Regexp
}

var words = [...]word{wordOf("stream_options", AddedUsage), wordOf("include_usage", AddedUsage), wordOf("max_completion_tokens", AddedBound)}

func wordOf(text string, of Addition) word {
	return word{[]byte(text), of, regexp.MustCompile(`"` + text + `"\s*:\s*(null|$)`)}
}

// escapedLetter is a letter in a form in which nobody needs to write it.
var escapedLetter = regexp.MustCompile(`\\u00[4-7]`)

// WordsIn are those in what a caller sent, which errors may repeat; all of them if that cannot be told.
func WordsIn(sent ...[]byte) (said Words) {
	for _, part := range sent {
		escapes := escapedLetter.Match(part)
		for i, w := range words {
			if n := bytes.Count(part, w.text); escapes || n > 0 && n > len(w.member.FindAllIndex(part, -1)) {
				said |= 1 << i
			}
		}
	}
	return said
}

// RefusedBy are those of a that an error refuses: it has a word of theirs which the caller had not sent.
func (a Addition) RefusedBy(text []byte, sent Words) (refused Addition) {
	for i, w := range words {
		if sent&(1<<i) == 0 && bytes.Contains(text, w.text) {
			refused |= w.of
		}
	}
	return a & refused
}

// Additions are what servers of models have refused. A tenant can provoke that by what it sends, so its calls alone go without an addition
// until another tenant's was refused, too. The zero value is ready to use, by any goroutine.
type Additions struct {
	mu      sync.Mutex
	refused map[refusable]refusal // guarded by mu
}

// refusable is one addition to the calls of a model.
type refusable struct {
	model string
	what  Addition
}

type refusal struct {
	by    string // a tenant, with all its teams
	all   bool   // others, too
	until time.Time
}

const (
	// mostRefused bounds the refusals that are remembered.
	mostRefused = 256
	// refusedFor is how long a refusal is believed: servers are replaced by newer ones.
	refusedFor = 24 * time.Hour
)

// Refused are the additions that a tenant's calls of a model go without.
func (a *Additions) Refused(now time.Time, tenant, model string) (what Addition) {
	tenant = withTeams(tenant)
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, one := range additions {
		if f := a.refused[refusable{model, one}]; now.Before(f.until) && (f.all || f.by == tenant) {
			what |= one
		}
	}
	return what
}

// Refuse notes that additions to a tenant's call of a model were refused. It reports whether that is news.
func (a *Additions) Refuse(now time.Time, tenant, model string, what Addition) (news bool) {
	tenant = withTeams(tenant)
	a.mu.Lock()
	defer a.mu.Unlock()
	full := len(a.refused) >= mostRefused
	maps.DeleteFunc(a.refused, func(_ refusable, f refusal) bool { return !now.Before(f.until) || full && !f.all })
	if a.refused == nil {
		a.refused = map[refusable]refusal{}
	}
	for _, one := range additions {
		at := refusable{model, one}
		f, known := a.refused[at]
		if what&one == 0 || known && (f.all || f.by == tenant) || len(a.refused) >= mostRefused {
			continue
		}
		a.refused[at] = refusal{tenant, known, now.Add(refusedFor)}
		news = true
	}
	return news
}

// withTeams is the tenant for whom what all its teams do counts together.
func withTeams(tenant string) string {
	tenant, _, _ = strings.Cut(tenant, "/")
	return tenant
}
