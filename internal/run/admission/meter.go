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
		u := governor.Usage(res.Usage)
		if res.NoInput {
			u.Input = c.Request.Input
			c.Ending.Unread = true
		}
		return u
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
			u.Input = max(u.Input, c.Unreported(&c.Ask.Prompt))
		}
	}
	switch {
	case res.Deltas > 0:
		u.Output = c.OutputOf(res.Deltas)
	case c.Ask.Answer.Open && res.Cause == streaming.Completed: // providers count no tokens of such models
	case !c.Ask.Stream || res.Cause == streaming.Completed || c.Gone(): // 0 on routes whose calls produce no output tokens
		most := c.Request.Output
		if byCaller {
			most = c.MostProduced()
		}
		if res.Text > 0 {
			most = min(most, tokens.OfText(res.Text))
		}
		u.Output = c.produced(c.Ask.Model, time.Since(c.now.Began), most)
	}
	return u
}

// MostProduced is the most that the answer may have had when its caller broke it off. If nothing bounds it, the hold is but what earlier ones had.
func (c *Call) MostProduced() int64 {
	if !c.Ask.Answer.Unbounded() {
		return c.Request.Output
	}
	return max(c.Request.Output, c.sizeOf(&c.Ask.Answer)[tokens.Elsewhere]/tokens.Scale)
}

// unreported learns from a prompt of which nobody tells how many tokens it had, and returns how many it is believed to have had; 0 is as it was counted.
func (s *scope) unreported(model string, p *ask.Prompt, text tokens.Sample) int64 {
	n := s.Estimates.Prompts.Unreported(time.Now(), model, p.Size, text)
	if p.Counted {
		return 0
	}
	return p.Before + n
}

// Unreported is unreported of a prompt of the call's model.
func (c *Call) Unreported(p *ask.Prompt) int64 {
	return c.unreported(c.Ask.Model, p, c.sampleOf(p))
}

// Sample is the sampleOf the call's prompt.
func (c *Call) Sample() tokens.Sample { return c.sampleOf(&c.Ask.Prompt) }

// sampleOf is what is left to tell how many tokens the prompt's text has: all of it if it was counted, else its excerpt, if that is denser than its
// characters explain: an excerpt is JSON, of whose syntax models see nothing.
func (c *Call) sampleOf(p *ask.Prompt) (text tokens.Sample) {
	if p.Counted {
		return tokens.Sample{Tokens: c.Request.Input, Weight: p.Size.Text()}
	}
	if p.Excerpt == nil || c.ctl.prompts == nil {
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
func (s *scope) produced(model string, d time.Duration, bound int64) int64 {
	for _, of := range [...]string{model, ""} {
		if speeds := &s.Estimates.Speeds; speeds.Knows(of, tokens.Document) {
			return min(bound, speeds.Estimate(of, lasting(d)))
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
	s, known := p.scopeOf(tenant, pool)
	if known && more.Input > 0 {
		s.Estimates.Prompts.Observe(time.Now(), model, prompt.Size, took.Input-prompt.Before)
	}
	if known && more.Output > 0 {
		s.Estimates.Answers.Observe(time.Now(), model, s.sizeOf(&ask.Answer{}), took.Output)
	}
}

// Unfinished is the usage of a call for whose end nobody waited, and which its caller broke off so long after its beginning, if nobody tells more than u: it
// is charged, and learned from, like one that its caller leaves. text is the call's Sample, and most its MostProduced.
func (p *Policy) Unfinished(tenant, pool, model string, prompt ask.Prompt, text tokens.Sample, u governor.Usage, ran time.Duration, most int64) governor.Usage {
	if s, known := p.scopeOf(tenant, pool); known {
		u.Input = max(u.Input, s.unreported(model, &prompt, text))
		u.Output = max(u.Output, s.produced(model, ran, most))
	}
	return u
}

// scopeOf is the scope of calls of a tenant in a pool, if the policy has both.
func (p *Policy) scopeOf(tenant, pool string) (s scope, known bool) {
	t, known := p.Snapshot.TenantOf(tenant)
	in, there := p.PoolNamed(pool)
	if !known || !there {
		return s, false
	}
	return scope{Estimates: p.Estimates(t.Index), Pool: in}, true
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
