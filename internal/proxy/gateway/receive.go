package gateway

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/lib/encoded"
	"github.com/llmgov/llmgov/internal/lib/text"
	"github.com/llmgov/llmgov/internal/proxy/gateway/describe"
	"github.com/llmgov/llmgov/internal/proxy/gateway/dialect"
	"github.com/llmgov/llmgov/internal/proxy/intake"
	"github.com/llmgov/llmgov/internal/run/admission/ask"
	"github.com/llmgov/llmgov/tenants"
)

// A client has lapTime for each lap of its body, and bodyTimeout for all of it. So a sender that has
// stopped holds memory for seconds, and a slow one that goes on is served.
const (
	lap         = 256 << 10
	lapTime     = 15 * time.Second
	bodyTimeout = 2 * time.Minute
)

// bodyBounds is the memory for bodies under a policy.
func bodyBounds(snap *tenants.Snapshot) intake.Bounds {
	m := snap.Config().BodyMemory
	return intake.Bounds{Process: m.Process, Tenant: m.Tenant}
}

// receive reads the body, as soon as there is memory for it.
func (c *call) receive() *refusal {
	limit := c.world.Snapshot.Config().MaxBody
	announced := c.r.ContentLength
	if announced > limit {
		return tooLarge(limit)
	}
	if c.route.Body == dialect.None {
		return c.notReceived(c.discard(limit), limit)
	}
	ask := intake.Ask{Tenant: c.Tenant.Name, Bytes: announced, Readers: c.readers(), Wait: c.MaxWait()}
	ask.Reuse = c.route.Body == dialect.JSON // the parts of a form are parts of the body, and are sent one by one
	if announced < 0 {
		ask.Bytes = min(limit, intake.Small)
	}
	if ask.Wait > 0 && c.r.ProtoMajor > 1 {
		_ = c.w.Control.SetReadDeadline(c.Began.Add(ask.Wait + lapTime)) // an expired one would end the stream
	}
	err := c.g.intake.Ask(c.r.Context(), &c.memory, ask)
	if err == nil {
		c.body, err = c.memory.Read(c.r.Context(), c.paced(), announced, limit)
	}
	c.HasWaited(c.memory.Waited)
	return c.notReceived(err, limit)
}

// decode puts the body in memory as it was before it was encoded. It waits for no memory, since the encoded body holds some.
func (c *call) decode(encoding string) *refusal {
	limit := c.world.Snapshot.Config().MaxBody
	var memory intake.Claim
	var body []byte
	err := encoded.Read(c.Tenant.Name, encoding, c.body, func(r io.Reader) (err error) {
		body, err = c.readGrowing(c.r.Context(), &memory, r, 0)
		return err
	})
	memory.Waited = c.memory.Waited
	c.memory.Release()
	c.memory = memory
	c.body = body
	return c.notReceived(err, limit)
}

// readGrowing reads something of unknown length into memory for it.
func (c *call) readGrowing(ctx context.Context, memory *intake.Claim, from io.Reader, wait time.Duration) ([]byte, error) {
	limit := c.world.Snapshot.Config().MaxBody
	err := c.g.intake.Ask(ctx, memory, intake.Ask{Tenant: c.Tenant.Name, Bytes: min(limit, intake.Small), Wait: wait})
	if err != nil {
		return nil, err
	}
	return memory.Read(ctx, from, -1, limit)
}

// readers is how many bodies of the tenant may be on their way in: as many as may run, as many that
// wait behind them, and some more, because bodies that are small do not take long.
func (c *call) readers() int {
	if c.Tenant.Concurrency == 0 {
		return 0
	}
	return int(min(2*c.Tenant.Concurrency, 1<<20)) + 4
}

// discard reads a body that is not passed on.
func (c *call) discard(limit int64) error {
	n, err := io.Copy(io.Discard, io.LimitReader(c.paced(), limit+1))
	if err == nil && n > limit {
		return intake.ErrTooLarge
	}
	return err
}

// paced is the body as its client sends it, if that is fast enough.
func (c *call) paced() io.Reader {
	c.pace = pacedBody{c: c, until: c.Began.Add(c.memory.Waited + bodyTimeout), waited: c.memory.Waited}
	if c.pace.waited == 0 && c.r.ProtoMajor == 1 {
		c.pace.left = lap // until the deadline that the call began with
	}
	return &c.pace
}

type pacedBody struct {
	c      *call
	until  time.Time
	left   int           // bytes of this lap
	waited time.Duration // for memory, until this lap began
}

func (b *pacedBody) Read(p []byte) (int, error) {
	if waited := b.c.memory.Waited; b.left <= 0 || waited != b.waited {
		b.left = lap
		b.until = b.until.Add(waited - b.waited) // while it waited, nobody read from the client
		b.waited = waited
		end := time.Now().Add(lapTime)
		if end.After(b.until) {
			end = b.until
		}
		_ = b.c.w.Control.SetReadDeadline(end)
	}
	n, err := b.c.r.Body.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

// notReceived is the refusal of a call whose body could not be read, if it could not.
func (c *call) notReceived(err error, limit int64) *refusal {
	if err == nil {
		return nil
	}
	c.memory.Release()
	if full, ok := errors.AsType[*intake.Refused](err); ok {
		c.showQueued(c.memory.Waited)
		c.closeAfter() // otherwise net/http would read some of the body before it answers
		return c.noMemory(full)
	}
	if errors.Is(err, intake.ErrTooLarge) {
		return tooLarge(limit)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return &refusal{
			Status: http.StatusRequestTimeout, Code: ask.CodeInvalid,
			Message: "The body came too slowly: each " + text.Bytes(lap) + " within " + lapTime.String() + ", and all of it within " + bodyTimeout.String() + ".",
		}
	}
	if broken, ok := errors.AsType[*encoded.Broken](err); ok {
		return describe.Garbled(broken)
	}
	return invalid("", "The body broke off before its end.")
}

// noMemory refuses a call for whose body there is no memory.
func (c *call) noMemory(full *intake.Refused) *refusal {
	m := c.world.Snapshot.Config().BodyMemory
	again := " " + comeAgain(full.RetryAfter)
	if full.Process {
		return &refusal{
			Status: http.StatusServiceUnavailable, Code: ask.CodeOverloaded, RetryAfter: full.RetryAfter,
			Message: "Bodies of calls fill the memory that this gateway has for them (" + text.Bytes(m.Process) + ")." + again,
		}
	}
	f := &refusal{
		Status: http.StatusTooManyRequests, Code: ask.CodeRate, Kind: governor.ReasonConcurrency.String(), RetryAfter: full.RetryAfter,
		Message: "Bodies of calls of tenant " + c.Tenant.Name + " fill its memory for them (" + text.Bytes(m.Tenant) + ")." + again,
	}
	if full.Readers {
		f.Message = "Tenant " + c.Tenant.Name + " sends too many bodies at the same time for its concurrency." + again
	}
	return f
}
