package client_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llmgov/llmgov/governor/client"
	"github.com/llmgov/llmgov/governor/client/doors"
	"github.com/llmgov/llmgov/governor/tokens"
	"github.com/llmgov/llmgov/internal/test/testkit"
)

// door lets every call in, and records how each one went.
type door struct {
	refusal *client.Refusal
	ends    []client.End
	came    []client.Produced
	cut     error // ends calls early
	grant   client.Grant
	ending  func() // is called at each end
}

func (d *door) Reserve(ctx context.Context, req client.Request) (doors.Held, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if d.refusal != nil {
		return nil, d.refusal
	}
	d.grant = client.Grant{ID: req.ID, Tenant: req.Tenant, Pool: "p"}
	return d, nil
}

func (d *door) Shutdown(context.Context) error { return nil }
func (d *door) Grant() client.Grant            { return d.grant }
func (d *door) Progress(p client.Produced)     { d.came = append(d.came, p) }
func (d *door) Show(h http.Header)             { h.Set("X-Ratelimit-Remaining-Tokens", "7") }
func (d *door) End(e client.End) {
	d.ends = append(d.ends, e)
	if d.ending != nil {
		d.ending()
	}
}

func (d *door) EndBy(end context.CancelCauseFunc) {
	if d.cut != nil {
		end(d.cut)
	}
}

var (
	asked = client.Request{ID: "req-1", Tenant: "acme", Model: "m", InputTokens: 10, MaxOutput: 20}
	took  = client.Usage{Input: 9, Output: 12}
	errUp = errors.New("model server is down")
)

// Every way out of the function ends the lease, once.
func TestDo_EndsInEveryWay(t *testing.T) {
	gone, leave := context.WithCancel(t.Context())
	for name, c := range map[string]struct {
		ctx  context.Context
		fn   func(context.Context, *client.Lease) (client.Usage, error)
		want client.End
	}{
		"answer":    {fn: func(context.Context, *client.Lease) (client.Usage, error) { return took, nil }, want: client.End{Outcome: client.Completed, Usage: took, Reported: true}},
		"no report": {fn: func(context.Context, *client.Lease) (client.Usage, error) { return client.Usage{}, nil }, want: client.End{Outcome: client.Completed}},
		"broken":    {fn: func(context.Context, *client.Lease) (client.Usage, error) { return took, errUp }, want: client.End{Outcome: client.Failed, Usage: took, Reported: true}},
		"not sent": {fn: func(context.Context, *client.Lease) (client.Usage, error) {
			return client.Usage{}, errors.Join(client.ErrNotSent, errUp)
		}, want: client.End{Outcome: client.NotSent}},
		"answered error": {fn: func(context.Context, *client.Lease) (client.Usage, error) {
			return client.Usage{}, client.ErrAnsweredError
		}, want: client.End{Outcome: client.AnsweredError}},
		"answered error, known": {fn: func(context.Context, *client.Lease) (client.Usage, error) {
			return client.Usage{}, fmt.Errorf("up: %w", client.AnsweredStatus(503))
		}, want: client.End{Outcome: client.AnsweredError, Status: 503}},
		"answered with something else": {fn: func(context.Context, *client.Lease) (client.Usage, error) {
			return client.Usage{}, client.AnsweredStatus(200)
		}, want: client.End{Outcome: client.AnsweredError}},
		"caller left": {ctx: gone, fn: func(context.Context, *client.Lease) (client.Usage, error) {
			leave()
			return client.Usage{}, gone.Err()
		}, want: client.End{Outcome: client.Cancelled}},
		"progress": {fn: func(_ context.Context, l *client.Lease) (client.Usage, error) {
			l.Progress(5)
			return client.Usage{}, errUp
		}, want: client.End{Outcome: client.Failed, Produced: client.Produced{Tokens: 5}}},
		"panic": {fn: func(context.Context, *client.Lease) (client.Usage, error) { panic("no") }, want: client.End{Outcome: client.Cancelled}},
		"goexit": {fn: func(context.Context, *client.Lease) (client.Usage, error) {
			runtime.Goexit()
			return took, nil
		}, want: client.End{Outcome: client.Cancelled}},
		"ended by itself": {fn: func(_ context.Context, l *client.Lease) (client.Usage, error) {
			l.End(client.End{Outcome: client.Completed, Usage: took, Reported: true})
			l.Progress(99)
			return client.Usage{}, errUp
		}, want: client.End{Outcome: client.Completed, Usage: took, Reported: true}},
	} {
		t.Run(name, func(t *testing.T) {
			d := &door{}
			if c.ctx == nil {
				c.ctx = t.Context()
			}
			over := make(chan struct{})
			var held *client.Lease
			go func() { // because one of them ends its goroutine
				defer close(over)
				defer func() { _ = recover() }()
				_ = doors.Open(d, doors.Options{}).Do(c.ctx, asked, func(ctx context.Context, l *client.Lease) (client.Usage, error) {
					held = l
					return c.fn(ctx, l)
				})
			}()
			<-over
			if diff := cmp.Diff([]client.End{c.want}, d.ends); diff != "" {
				t.Error(diff)
			}
			if held.Context().Err() == nil {
				t.Error("the lease's context goes on")
			}
		})
	}
}

// A usage that no call has charges nothing of what it says: the lease ends by estimate, and the error says why.
func TestDo_UsageThatCannotBe(t *testing.T) {
	counted := client.Produced{Tokens: 5}
	for param, end := range map[string]client.End{
		"usage.input_tokens":        {Usage: client.Usage{Input: -5}},
		"usage.cached_input_tokens": {Usage: client.Usage{Input: 9, CachedInput: math.MinInt64}},
		"usage.output_tokens":       {Usage: client.Usage{Output: math.MaxInt64}},
		"usage.reasoning_tokens":    {Usage: client.Usage{Output: 9, Reasoning: -1}},
		"usage.audio_input_tokens":  {Usage: client.Usage{Input: 9, AudioInput: 1_000_000_001}},
		"usage.audio_output_tokens": {Usage: client.Usage{AudioOutput: -9}},
		"usage.service_tier":        {Usage: client.Usage{Input: 9, Tier: "\xff"}}, // no Door to another process could tell it
		"output_tokens":             {Produced: client.Produced{Tokens: -1}},
		"deltas":                    {Produced: client.Produced{Deltas: math.MaxInt64}},
		"outcome":                   {Outcome: 99},
	} {
		d := &door{}
		var log bytes.Buffer
		opt := doors.Options{Log: slog.New(slog.NewTextHandler(&log, nil))}
		err := doors.Open(d, opt).Do(t.Context(), asked, func(_ context.Context, l *client.Lease) (client.Usage, error) {
			l.Progress(5)
			if end.Usage == (client.Usage{}) {
				return took, l.End(end)
			}
			return end.Usage, nil
		})
		want := client.End{Outcome: client.Completed, Produced: counted}
		if end.Usage == (client.Usage{}) { // nothing that it says of the outcome can be believed
			want.Outcome = client.Cancelled
		}
		if len(d.ends) != 1 || d.ends[0] != want {
			t.Errorf("%s: ended as %+v", param, d.ends)
		}
		if !errors.Is(err, client.ErrUsage) || !strings.Contains(err.Error(), param) {
			t.Errorf("%s: %v", param, err)
		}
		if !strings.Contains(log.String(), param) || !strings.Contains(log.String(), "tenant=acme") {
			t.Errorf("%s: the log has %q", param, &log)
		}
		if r, _ := errors.AsType[*client.Refusal](end.Check()); r == nil || r.Param != param {
			t.Errorf("%s: %v", param, end.Check())
		}
	}
	both := doors.Open(&door{}, doors.Options{}).Do(t.Context(), asked, func(context.Context, *client.Lease) (client.Usage, error) { return client.Usage{Input: -5}, errUp })
	if !errors.Is(both, errUp) || !errors.Is(both, client.ErrUsage) {
		t.Errorf("a call that failed with such a usage: %v", both)
	}
}

// Progress that no call makes is none, or as much as can be, and that of nothing is no sign that an answer has begun.
func TestLease_ProgressThatCannotBe(t *testing.T) {
	d := &door{}
	_ = doors.Open(d, doors.Options{}).Do(t.Context(), asked, func(_ context.Context, l *client.Lease) (client.Usage, error) {
		l.Progress(-7)
		l.Progress(0)
		l.ProgressDeltas(0)
		l.ProgressDeltas(math.MinInt64)
		l.ProgressDeltas(math.MaxInt64)
		return took, nil
	})
	if want := []client.Produced{{Deltas: 1_000_000_000}}; !cmp.Equal(d.came, want) {
		t.Errorf("the door was told %+v", d.came)
	}
}

// The context of a lease that is closed has ended, also for whoever asks for it only then.
func TestLease_ContextAfterClose(t *testing.T) {
	l, err := doors.Open(&door{}, doors.Options{}).Reserve(t.Context(), asked)
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	if l.Context().Err() == nil {
		t.Error("it goes on")
	}
}

// A refusal says who refused, and whether it pays to ask again.
func TestRefusal(t *testing.T) {
	for _, c := range []struct {
		refusal   client.Refusal
		retryable bool
		text      string
	}{
		{client.Refusal{Status: 429, Code: "rate_limit_exceeded", Message: "Rate limit reached."}, true, "llmgov: Rate limit reached."},
		{client.Refusal{Status: 429, Code: "insufficient_quota", Final: true}, false, "llmgov: 429 insufficient_quota"},
		{client.Refusal{Status: 400}, false, "llmgov: 400 Bad Request"},
		{client.Refusal{Status: 401, Code: "invalid_api_key"}, false, "llmgov: 401 invalid_api_key"},
		{client.Refusal{Status: 403}, false, "llmgov: 403 Forbidden"},
		{client.Refusal{Status: 404}, false, "llmgov: 404 Not Found"},
		{client.Refusal{Status: 408}, true, "llmgov: 408 Request Timeout"},
		{client.Refusal{Status: 409, Code: "request_in_progress"}, true, "llmgov: 409 request_in_progress"},
		{client.Refusal{Status: 413}, false, "llmgov: 413 Request Entity Too Large"},
		{client.Refusal{Status: 500}, true, "llmgov: 500 Internal Server Error"},
		{client.Refusal{Status: 503, Code: "draining"}, true, "llmgov: 503 draining"},
		{client.Refusal{Status: 503, Final: true}, false, "llmgov: 503 Service Unavailable"},
	} {
		if got := c.refusal.Retryable(); got != c.retryable || c.refusal.Error() != c.text {
			t.Errorf("%+v: retryable %t, %q", c.refusal, got, c.refusal.Error())
		}
	}
}

// A refusal is an error that can be looked into, and the end of the context is the context's own error.
func TestDo_Refused(t *testing.T) {
	d := &door{refusal: &client.Refusal{Status: http.StatusTooManyRequests, Code: "rate_limit_exceeded"}}
	c := doors.Open(d, doors.Options{})
	never := func(context.Context, *client.Lease) (client.Usage, error) {
		t.Error("the call was made")
		return client.Usage{}, nil
	}
	err := c.Do(t.Context(), asked, never)
	if r, ok := errors.AsType[*client.Refusal](err); !ok || r.Status != http.StatusTooManyRequests {
		t.Errorf("refused: %v", err)
	}
	gone, leave := context.WithCancel(t.Context())
	leave()
	if err := c.Do(gone, asked, never); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// The governor ends a call by its context, and the error says so, and when to come back.
func TestDo_Interrupted(t *testing.T) {
	d := &door{cut: &client.Refusal{Status: http.StatusServiceUnavailable, Code: "draining"}}
	err := doors.Open(d, doors.Options{}).Do(t.Context(), asked, func(_ context.Context, l *client.Lease) (client.Usage, error) {
		<-l.Context().Done()
		return client.Usage{Input: 9, Output: 3}, l.Context().Err()
	})
	if r, ok := errors.AsType[*client.Refusal](err); !ok || r.Code != "draining" || r.RetryAfter <= 0 {
		t.Errorf("interrupted: %v", err)
	}
	if want := []client.End{{Outcome: client.Failed, Usage: client.Usage{Input: 9, Output: 3}, Reported: true}}; !cmp.Equal(d.ends, want) {
		t.Errorf("ended as %+v", d.ends)
	}
}

// Requests that are wrong by themselves reach no governor.
func TestRequest_Check(t *testing.T) {
	for param, spoil := range map[string]func(*client.Request){
		"input_tokens":      func(r *client.Request) { r.InputTokens = -1 },
		"max_output_tokens": func(r *client.Request) { r.MaxOutput = -2 },
		"copies":            func(r *client.Request) { r.Copies = 1 << 20 },
		"input_size":        func(r *client.Request) { r.InputSize[0] = -5 },
		"tenant":            func(r *client.Request) { r.Key = "sk-x" },
		"model":             func(r *client.Request) { r.Model = string(make([]byte, 300)) },
		"id":                func(r *client.Request) { r.ID = "two words" },
		"instead":           func(r *client.Request) { r.Instead = make([]string, 1000) },
		"retry.attempt":     func(r *client.Request) { r.Retry.Attempt = -1 },
	} {
		req := asked
		spoil(&req)
		_, err := doors.Open(&door{}, doors.Options{}).Reserve(t.Context(), req)
		r, ok := errors.AsType[*client.Refusal](err)
		if !ok || r.Status != http.StatusBadRequest || r.Param != param || r.Message == "" {
			t.Errorf("%s: %v", param, err)
		}
	}
	for param, field := range map[string]func(*client.Request) *string{
		"id":        func(r *client.Request) *string { return &r.ID },
		"key":       func(r *client.Request) *string { r.Tenant = ""; return &r.Key },
		"tenant":    func(r *client.Request) *string { return &r.Tenant },
		"model":     func(r *client.Request) *string { return &r.Model },
		"instead":   func(r *client.Request) *string { r.Instead = []string{"good", ""}; return &r.Instead[1] },
		"pool":      func(r *client.Request) *string { return &r.Pool },
		"route":     func(r *client.Request) *string { return &r.Route },
		"retry.key": func(r *client.Request) *string { return &r.Retry.Key },
	} {
		for text, good := range map[string]bool{"\xff": false, "caf\xe9": false, "half of \xe2\x82": false, "\xed\xa0\x80": false, "\xc0\xaf": false, "café €": param != "id"} {
			req := asked
			*field(&req) = text
			err := req.Check()
			if r, _ := errors.AsType[*client.Refusal](err); (err == nil) != good || !good && (r.Code != client.CodeInvalid || r.Param != param) {
				t.Errorf("%s %q: %v", param, text, err)
			}
		}
	}
	if err := asked.Check(); err != nil {
		t.Errorf("a good request: %v", err)
	}
}

// TestRequest_Check_Size: no parts of a size pass its bound because their sum is too large to be counted.
func TestRequest_Check_Size(t *testing.T) {
	const most = 1_000_000_000 * tokens.Scale
	for name, c := range map[string]struct {
		size tokens.Size
		good bool
	}{
		"all that is allowed, in one part":     {tokens.Size{tokens.Sound: most}, true},
		"all that is allowed, in two":          {tokens.Size{tokens.Text: most - 5, tokens.Image: 5}, true},
		"one more":                             {tokens.Size{tokens.Elsewhere: most + 1}, false},
		"one more, in two":                     {tokens.Size{tokens.Text: most, tokens.Document: 1}, false},
		"four whose sum is none":               {tokens.Size{1 << 62, 1 << 62, 1 << 62, 1 << 62, 0}, false},
		"four whose sum is none, and a little": {tokens.Size{1 << 62, 1 << 62, 1 << 62, 1 << 62, 640}, false},
		"two whose sum is less than none":      {tokens.Size{tokens.Text: math.MaxInt64, tokens.Sound: 1}, false},
		"the least":                            {tokens.Size{tokens.Document: math.MinInt64}, false},
		"two of the least":                     {tokens.Size{tokens.Image: math.MinInt64, tokens.Sound: math.MinInt64}, false},
		"one that takes another back":          {tokens.Size{tokens.Text: most + 7, tokens.Image: -7}, false},
	} {
		req := asked
		req.InputSize = c.size
		err := req.Check()
		r, _ := errors.AsType[*client.Refusal](err)
		if c.good && err != nil || !c.good && (r == nil || r.Status != http.StatusBadRequest || r.Param != "input_size") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The class of a refusal is found by errors.Is, and what a Door left open is decided: whoever goes by it neither spins nor waits for nothing.
func TestReserve_Told(t *testing.T) {
	classes := []error{client.ErrRefused, client.ErrInvalid, client.ErrUnavailable, client.ErrClosed}
	for _, c := range []struct {
		said  client.Refusal
		class error
		final bool
		retry time.Duration
	}{
		{client.Refusal{Status: 400, Code: client.CodeInvalid}, client.ErrInvalid, true, 0},
		{client.Refusal{Status: 401, Code: client.CodeKey}, nil, true, 0},
		{client.Refusal{Status: 404, Code: client.CodeNoModel, RetryAfter: time.Hour}, nil, true, time.Hour},
		{client.Refusal{Status: 409, Code: client.CodeRunning}, nil, false, time.Second},
		{client.Refusal{Status: 429, Code: client.CodeRate, RetryAfter: time.Minute}, nil, false, time.Minute},
		{client.Refusal{Status: 429, Code: client.CodeBudget, Final: true}, nil, true, 0},
		{client.Refusal{Status: 503, Code: client.CodeUnavailable}, client.ErrUnavailable, false, time.Second},
	} {
		said := c.said
		_, err := doors.Open(&door{refusal: &said}, doors.Options{}).Reserve(t.Context(), asked)
		r, _ := errors.AsType[*client.Refusal](err)
		if r == nil || r.Final != c.final || r.Retryable() == c.final || r.RetryAfter != c.retry {
			t.Errorf("%+v: %+v", c.said, r)
		}
		for _, class := range classes {
			if is := class == client.ErrRefused || class == c.class; errors.Is(err, class) != is {
				t.Errorf("%+v: %v, %t", c.said, class, !is)
			}
		}
	}
}

// A Client that is closed refuses calls as such, before it asks anybody.
func TestClose_Refuses(t *testing.T) {
	c := doors.Open(&door{}, doors.Options{})
	lease := testkit.Must(c.Reserve(t.Context(), asked))(t)
	testkit.OK(t, c.Close())
	testkit.OK(t, lease.End(client.End{Reported: true, Usage: took}))
	if _, err := c.Reserve(t.Context(), asked); !errors.Is(err, client.ErrClosed) || !errors.Is(err, client.ErrRefused) {
		t.Errorf("a call: %v", err)
	}
	if err := c.Ping(t.Context()); !errors.Is(err, client.ErrClosed) {
		t.Errorf("a ping: %v", err)
	}
}

// The watch goes on while there are leases, also past one that was found and has ended meanwhile, until the Client is closed.
func TestForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &door{}
		c := doors.Open(d, doors.Options{Log: slog.New(slog.DiscardHandler)})
		reserve := func() *client.Lease { return testkit.Must(c.Reserve(t.Context(), asked))(t) }
		looked := func(want int64) {
			t.Helper()
			time.Sleep(time.Minute)
			if got := c.Forgotten(); got != want {
				t.Errorf("%d leases were found, want %d", got, want)
			}
		}
		ended, open, last := reserve(), reserve(), reserve()
		client.Forget(ended)
		ended.Close()
		client.Forget(open)
		looked(1)
		late := reserve()
		client.Forget(last)
		looked(2)
		for _, l := range []*client.Lease{open, last} {
			l.Context()
			r := l.Interrupted()
			if r == nil || r.Code != client.CodeExpired || r.ID != asked.ID || r.Message == "" {
				t.Errorf("a lease that has expired: %+v", r)
				continue
			}
			r.Message = ""
		}
		other := reserve()
		d.ending = func() { testkit.OK(t, c.Close()) } // while it looks
		client.Forget(late)
		looked(3)
		d.ending = nil
		client.Forget(other)
		looked(3)
		other.Close()
	})
}

// A lease may be older than MaxHold as soon as it is made: for the race detector.
func TestReserve_MaxHoldOverAtOnce(t *testing.T) {
	for range 100 {
		c := doors.Open(&door{}, doors.Options{MaxHold: 1, Log: slog.New(slog.DiscardHandler)})
		testkit.Must(c.Reserve(t.Context(), asked))(t).Close()
	}
}

// An End that says nothing of its outcome is completed if it knows what the call took, and else broken off.
func TestLease_EndOfUnknownOutcome(t *testing.T) {
	for end, want := range map[client.End]client.Outcome{
		{}: client.Cancelled, {Usage: took}: client.Cancelled, {Usage: took, Reported: true}: client.Completed, {Outcome: client.Failed}: client.Failed,
	} {
		d := &door{}
		l := testkit.Must(doors.Open(d, doors.Options{}).Reserve(t.Context(), asked))(t)
		if err := l.End(end); err != nil || len(d.ends) != 1 || d.ends[0].Outcome != want {
			t.Errorf("%+v: %v, %+v", end, err, d.ends)
		}
	}
}
