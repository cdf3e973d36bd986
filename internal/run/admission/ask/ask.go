package ask

import (
	"bytes"
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/governor/tokens"
)

// Ask describes the call that a caller wants to make.
type Ask struct {
	Model string
	// Pool, if set, is the pool in which the call is counted, whichever serves the model.
	Pool string
	// Instead are models that may answer in its place. The call is held at the price of the dearest.
	Instead []string
	Prompt  Prompt
	Answer  Answer
	// Via is the set of the pool's upstreams to which the call may go, by their index; 0 is all that its tenant may reach.
	Via uint64
	// Conversation identifies the calls of one conversation, which would rather go to the same upstream; 0 is none.
	Conversation uint64
	// Tier is the service tier that the call asks for; "" is the standard one.
	Tier string
	// Free calls take no tokens. They count as a request.
	Free       bool
	Stream     bool
	Background bool           // interactive calls go first
	Header     Header         // of its request, for the tenant's priority_by and members; nil if there is none
	User       string         // who makes it, as its body says
	Named      uint64         // its conversation, as its body names that; 0 is not known
	Member     string         // who of its tenant makes it, if its door knows
	MaxWait    *time.Duration // shortens the tenant's; nil does not
	Retry      Retry
	// Told says that the tenant's own program tells how the call ends, and can tell what it likes: see governor.Request.
	Told bool
}

// Header are the headers of a request, by their names as net/http spells them.
type Header map[string][]string

// sessionHeaders are those in which callers name the session, or conversation, of a call; the first that is there counts.
var sessionHeaders = []string{
	"X-Llmgov-Session",
	"X-Claude-Code-Session-Id",
	"Session-Id", "Session_id", "Conversation_id", // Codex, newer and older
	"X-Session-Affinity", "X-Opencode-Session", // opencode
	"X-Session-Id", // opencode, and other agents
}

// Session is the caller's name for the session of a call; "" is not known.
func (h Header) Session() string {
	for _, name := range sessionHeaders {
		if values := h[name]; len(values) > 0 && values[0] != "" {
			return values[0]
		}
	}
	return ""
}

// Prompt is how long the input of a call is.
type Prompt struct {
	// Tokens is their number, if the caller knows it. It is estimated if 0.
	Tokens int64
	// Size is the size of everything except what Before has counted, and Own that of the body alone.
	Size, Own tokens.Size
	// Before is how many tokens the call brings along from earlier ones, as the upstream counted them.
	Before int64
	// Body is the body, if it is JSON, in which a PromptCounter can count. Estimate drops it. Unless it was Counted, an Excerpt is left of it,
	// should nobody say how many tokens the prompt had. Of another body whoever reads that takes it.
	// Apart are the files in the Body.
	Body    []byte
	Apart   []tokens.Span
	Excerpt tokens.Excerpt
	Counted bool
}

// FindFiles finds the files in the Body for a door that is told its size, and does not read it.
func (p *Prompt) FindFiles() {
	if !p.Own.IsText() || bytes.Contains(p.Body, []byte("base64")) { // files of text are text
		p.Apart = tokens.Measure(p.Body).Apart
	}
}

// Least is how many tokens it has at the least, if its Tokens are not known: how long its files are is only guessed, also of those that say a text.
func (p *Prompt) Least() int64 {
	own := p.Own
	for _, file := range p.Apart {
		own[tokens.Text] -= file.Said
	}
	return max(0, own.Least())
}

// Answer is how long the answer to a call may become.
type Answer struct {
	Bound  int64  // tokens of each copy, as the call bounds them; 0 is unbounded, and so is more than mostBound
	Copies int64  // 0 is 1
	None   bool   // it has no output tokens
	Open   bool   // it has some, and nothing in a call can bound them
	Route  string // decides about the length of Open answers, together with the model
}

// Times is the number of copies.
func (a *Answer) Times() int64 { return max(1, a.Copies) }

// mostBound is more than anybody means: callers write the largest number that they know for no bound.
const mostBound = 1_000_000_000

// Unbounded reports whether it has tokens, and nothing in the call bounds them.
func (a *Answer) Unbounded() bool { return !a.None && (a.Bound == 0 || a.Bound > mostBound || a.Open) }

// Kind is the name by which the lengths of answers are learned that nothing bounds. One model may serve several Open routes.
func (a *Answer) Kind(model string) string {
	if a.Open {
		return a.Route + " " + model
	}
	return model
}

// Retry is how a call is recognized that was made before.
type Retry struct {
	Key     string       // the caller's name for the call and its retries; "" is none
	Attempt escrow.Retry // as the caller counts
	// Once lets no other call with the same Key in until this one has ended. Digest tells calls with
	// one Key apart that ask for different things.
	Once   bool
	Digest uint64
}
