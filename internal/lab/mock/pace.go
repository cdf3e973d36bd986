package mock

import (
	"context"
	"math"
	"time"

	"github.com/llmgov/llmgov/internal/lab/mock/batch"
)

// pace is the schedule of an answer's tokens, counted from its start. It is absolute: a token that
// was late, because the client read slowly, does not delay later ones.
type pace struct {
	start time.Time
	first time.Duration // until token 0
	speed float64       // tokens a second; 0 = all together
	pause time.Duration // before each chunk of a slow request
	timer *time.Timer   // made on first need, used again for each wait
	seat  *batch.Seat   // in a continuous batch, which then decides when tokens come; or nil
}

// begin begins the schedule of an answer to a prompt, in a batch if there is one.
func (p *pace) begin(b *batch.Batch, prompt int64) {
	p.start = time.Now()
	if b == nil {
		return
	}
	step := p.pause
	if p.speed > 0 {
		step += time.Duration(float64(time.Second) / p.speed)
	}
	p.seat = b.Enter(prompt, p.first+p.pause, step)
}

// instant reports whether no token needs waiting. Then no clock is read.
func (p *pace) instant() bool { return p.first == 0 && p.speed == 0 && p.pause == 0 }

// due returns the time of token i (of each choice) after the start.
func (p *pace) due(i int) time.Duration {
	d := p.first + time.Duration(i+1)*p.pause
	if p.speed > 0 {
		// Computed from i each time, so that rounding never adds up.
		d += time.Duration(math.Round(float64(i) * float64(time.Second) / p.speed))
	}
	return d
}

// wait blocks until token i is due. It reports false when ctx ended first, or has ended.
func (p *pace) wait(ctx context.Context, i int) bool {
	if ctx.Err() != nil {
		return false
	}
	if p.seat != nil {
		return p.seat.Wait(ctx, i)
	}
	if p.instant() {
		return true
	}
	left := p.due(i) - time.Since(p.start)
	if left <= 0 {
		return true
	}
	if p.timer == nil {
		p.timer = time.NewTimer(left)
	} else {
		p.timer.Reset(left)
	}
	select {
	case <-p.timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// ready returns the number of tokens, of at most n, that are due now.
func (p *pace) ready(from, n int) int {
	if p.seat != nil {
		return min(from+1, n)
	}
	if p.instant() {
		return n
	}
	for age := time.Since(p.start); from < n && p.due(from) <= age; from++ {
	}
	return from
}

func (p *pace) stop() {
	if p.seat != nil {
		p.seat.Leave()
	}
	if p.timer != nil {
		p.timer.Stop()
	}
}
