package admission

import (
	"time"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/governor/tokens"
	"github.com/llmgov/llmgov/internal/ops/telemetry"
	"github.com/llmgov/llmgov/internal/run/admission/ask"
	"github.com/llmgov/llmgov/streaming"
)

// NoteFirst notes how long the first token took. It leaves to Progress to renew the lease.
func (c *Call) NoteFirst() {
	c.Ending.FirstToken = time.Since(c.Admitted)
	telemetry.Observe(c.Pool.Metrics.FirstToken, c.Ending.FirstToken, c.Spans.Exemplar())
}

// Progress renews the lease as the stream flows. Any goroutine may call it.
func (c *Call) Progress(deltas int64) { c.Lease.Progress(c.OutputOf(deltas)) }

// OutputOf converts deltas to tokens, by the reports of earlier streams of the model.
func (c *Call) OutputOf(deltas int64) int64 {
	if deltas == 0 {
		return 0
	}
	return c.Estimates.Deltas.Estimate(c.Ask.Model, tokens.Size{tokens.Text: deltas * tokens.Scale})
}

// Metered is the usage that the upstream reported. Without a report it is the estimated prompt and the
// deltas that were counted.
//
// A whole answer without them is taken to have as much as its text amounts to, or less if calls of its tenant and model produce less in the time that
// it ran.
//
// If there is nothing, the upstream may have produced tokens that nobody saw: a plain answer that broke off, or the
// reasoning before the first delta of a stream. It is taken to have produced as much as calls of its tenant and
// model do in the time that it ran, at most its bound. A stream that the upstream itself ended
// before its first delta has produced nothing: otherwise an outage would use up its callers' limits.
func (c *Call) Metered(res streaming.Result) governor.Usage {
	if res.Reported {
		c.Ending.Reported = true
		return governor.Usage(res.Usage)
	}
	c.Ending.Estimated = true
	if res.InPlace() {
		return governor.Usage{}
	}
	c.Ending.Unread = res.Cause == streaming.Completed && !c.Ask.Free && !c.Ask.Answer.None && !c.Ask.Answer.Open
	byCaller := c.Gone() || c.Ask.Told // it may have chosen to await no usage
	u := governor.Usage(res.Usage)
	u.Output, u.Reasoning, u.AudioOutput, u.ImageOutput = 0, 0, 0, 0
	if u.Input == 0 { // even a stream that broke off may have told its prompt
		u.Input = c.Request.Input
		if byCaller && !c.Ask.Free {
			u.Input = max(u.Input, c.unreported())
		}
	}
	switch {
	case res.Deltas > 0:
		u.Output = c.OutputOf(res.Deltas)
	case c.Ask.Answer.Open && res.Cause == streaming.Completed: // providers count no tokens of such models
	case !c.Ask.Stream || res.Cause == streaming.Completed || c.Gone(): // 0 on routes whose calls produce no output tokens
		most := c.Request.Output
		if byCaller && c.Ask.Answer.Unbounded() { // the hold is but what earlier answers had
			most = max(most, c.sizeOf(&c.Ask.Answer)[tokens.Elsewhere]/tokens.Scale)
		}
		if res.Text > 0 {
			most = min(most, tokens.OfText(res.Text))
		}
		u.Output = c.produced(time.Since(c.now.Began), most)
	}
	return u
}

// unreported learns from a prompt of which nobody tells how many tokens it had, and returns how many that are by what is left of it: it was counted, or all
// of its text is like its excerpt, if that is denser than its characters explain: an excerpt is JSON, of whose syntax models see nothing. 0 is unknown.
func (c *Call) unreported() int64 {
	p := &c.Ask.Prompt
	text := tokens.Sample{Tokens: c.Request.Input, Weight: p.Size.Text()}
	if !p.Counted {
		text = c.sample()
	}
	n := c.Estimates.Prompts.Unreported(time.Now(), c.Ask.Model, p.Size, text)
	if p.Counted || n == 0 {
		return 0
	}
	return p.Before + n
}

// sample is what the prompt's excerpt has, if that is denser than its characters explain.
func (c *Call) sample() (text tokens.Sample) {
	p := &c.Ask.Prompt
	if p.Excerpt == nil {
		return text
	}
	n, ok := c.ctl.prompts.Excerpt(c.Policy.Snapshot.RealModel(c.Ask.Model), p.Excerpt)
	weight := max(1, p.Excerpt.Weight())
	if ok && p.Size.Denser(n*p.Size.Text()/weight) {
		text = tokens.Sample{Tokens: n, Weight: weight}
	}
	return text
}

// produced estimates how much an answer had after some time, by how fast nearly all of the tenant's calls of the model are, and until there are
// any, those of all models; at most the bound.
func (c *Call) produced(d time.Duration, bound int64) int64 {
	for _, model := range [...]string{c.Ask.Model, ""} {
		if speeds := &c.Estimates.Speeds; speeds.Knows(model, tokens.Document) {
			return min(bound, speeds.Estimate(model, lasting(d)))
		}
	}
	return bound
}

// lasting is the size of what is known by its time alone: as that of a document, of which it has an eighth of a token to 256 in 50 ms.
func lasting(d time.Duration) tokens.Size {
	return tokens.Size{tokens.Document: d.Milliseconds() * tokens.Scale / 50}
}

// Guess estimates the usage of a broken call that reported none. A call that never left
// took nothing, nor did one that the upstream answered with an error.
func (c *Call) Guess() governor.Usage {
	t := c.now
	if !t.Sent.Load() || t.Refused {
		return governor.Usage{}
	}
	return c.Metered(streaming.Result{Cause: streaming.ClientGone})
}

// learnPrompt calibrates the estimates by what an answer tells of its prompt, be it whole or broken off. From what a tenant tells nobody else learns.
func (c *Call) learnPrompt(res streaming.Result) {
	if p := &c.Ask.Prompt; res.Usage.Input > 0 {
		c.Estimates.Prompts.Observe(time.Now(), c.Ask.Model, p.Size, res.Usage.Input-p.Before)
	}
}

// learn calibrates the estimates by a whole answer, with which the call ends.
func (c *Call) learn(res streaming.Result) {
	if !res.Reported {
		return
	}
	u := res.Usage
	c.Estimates.Deltas.Observe(time.Now(), c.Ask.Model, tokens.Size{tokens.Text: res.Deltas * tokens.Scale}, u.Output)
	for _, model := range [...]string{c.Ask.Model, ""} {
		c.Estimates.Speeds.Observe(time.Now(), model, lasting(c.ran()-c.now.Began.Sub(c.Admitted)), u.Output)
	}
	if c.Ask.Told {
		return
	}
	if took := u.Input + u.Output; took > 0 {
		c.Pool.Metrics.EstimateError.Observe(float64(c.Request.Input+c.Request.Output) / float64(took))
	}
}

// LearnMore learns from a call for whose end nobody waited that it took more than was held: of its answer, because nothing bounded that.
func (p *Policy) LearnMore(tenant, pool, model string, prompt ask.Prompt, took, more governor.Usage) {
	t, known := p.Snapshot.TenantOf(tenant)
	in, there := p.PoolNamed(pool)
	if !known || !there {
		return
	}
	s := scope{Estimates: p.Estimates(t.Index), Pool: in}
	if more.Input > 0 {
		s.Estimates.Prompts.Observe(time.Now(), model, prompt.Size, took.Input-prompt.Before)
	}
	if more.Output > 0 {
		s.Estimates.Answers.Observe(time.Now(), model, s.sizeOf(&ask.Answer{}), took.Output)
	}
}

// learnAnswer learns how long an answer was that nothing bounded: of one that broke off or was not reported, if it was longer than was held. One that reports
// nothing is charged no output, so that hardly any is held for the next ones either.
func (c *Call) learnAnswer(whole bool, output int64) {
	a := &c.Ask.Answer
	if c.Ask.Free || !a.Unbounded() || !whole && output <= c.Request.Output {
		return
	}
	c.Estimates.Answers.Observe(time.Now(), a.Kind(c.Ask.Model), c.sizeOf(a), max(1, output))
}
