package realtime

import (
	"math/rand/v2"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/governor/tokens"
	"github.com/llmgov/llmgov/internal/proxy/gateway/head"
)

// The length of one token of audio in base64, a tenth of a second: of 24,000 two-byte samples a second, which sessions have unless they
// say otherwise, and of 8,000 of one byte, which are the fewest bytes of the formats that there are.
const (
	wideBytes   = 24_000 * 2 / 10 * 4 / 3
	narrowBytes = 8000 / 10 * 4 / 3
)

// prompt is the conversation so far, which is the prompt of the next response.
type prompt struct {
	heard   int64          // tokens that the upstream has counted
	said    tokens.Size    // since then
	narrow  bool           // the session has named a format with fewer bytes
	excerpt tokens.Excerpt // of one of the events of which said is, drawn by their weight
}

// add adds an event of the client.
func (p *prompt) add(e *head.Event) {
	if e.Kind == head.EventAppend {
		perToken := int64(wideBytes)
		if p.narrow {
			perToken = narrowBytes
		}
		p.said[tokens.Sound] += int64(len(e.Text)) * tokens.Scale / perToken
		return
	}
	if e.Narrow {
		p.narrows()
	}
	m := tokens.Measure(e.Text)
	p.said = p.said.Plus(m.Size)
	if text := m.Text(); text > 0 && rand.Int64N(p.said.Text()) < text {
		p.excerpt = tokens.ExcerptOf(e.Text, m.Apart)
	}
}

// narrows notes that the session has named a format with fewer bytes, in which the sound so far may be read yet.
func (p *prompt) narrows() {
	if !p.narrow {
		p.narrow = true
		p.said[tokens.Sound] = p.said[tokens.Sound] * wideBytes / narrowBytes
	}
}

// counted takes over the usage of a response: the next prompt has all of that.
func (p *prompt) counted(u governor.Usage) {
	p.heard = u.Input + u.Output
	p.said = tokens.Size{}
	p.excerpt = nil
}
