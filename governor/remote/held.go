package remote

import (
	"context"
	"net/http"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/llmgov/llmgov/governor/client"
	"github.com/llmgov/llmgov/governor/remote/admissionv1"
)

const (
	// soonest is the time between two signs of life of a call that shows progress.
	soonest = time.Second
	// beatPatience is how long a sign of life may take.
	beatPatience = 10 * time.Second
	// endPatience is how long a call waits until llmgov has heard of its end, which beyond that is told later.
	endPatience = time.Second
)

// held is a reservation. It implements doors.Held. One timer sends all of its signs of life.
type held struct {
	door    *door
	id      string
	headers map[string]string
	grant   client.Grant
	every   time.Duration // between two signs of life of a call that shows none

	mu       sync.Mutex
	timer    *time.Timer             // guarded by mu
	sent     time.Time               // guarded by mu: when the last sign of life was
	produced client.Produced         // guarded by mu
	over     bool                    // guarded by mu: no sign of life is sent any more
	cut      *client.Refusal         // guarded by mu: why llmgov ended the call early
	end      context.CancelCauseFunc // guarded by mu; nil until somebody wants to know
}

// begin begins to keep the reservation alive.
func (h *held) begin(ttl time.Duration) {
	h.every = ttl / 3
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sent = time.Now()
	h.timer = time.AfterFunc(h.every, h.beat)
}

// Progress implements doors.Held.
func (h *held) Progress(p client.Produced) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.produced = p
	if h.over || time.Since(h.sent) < soonest {
		return
	}
	h.sent = time.Now() // by the timer, at once
	h.timer.Reset(0)
}

// beat sends a sign of life.
func (h *held) beat() {
	h.mu.Lock()
	p := h.produced
	h.over = h.over || h.door.telling.Err() != nil
	over := h.over
	h.sent = time.Now()
	deaf := h.door.disconnected()
	if deaf && !over {
		h.timer.Reset(soonest)
	}
	h.mu.Unlock()
	if over || deaf {
		return
	}
	ctx, cancel := context.WithTimeout(h.door.telling, beatPatience)
	defer cancel()
	answer, err := h.door.stub.Progress(ctx, &admissionv1.ProgressRequest{ReservationId: h.id, OutputTokens: p.Tokens, Deltas: p.Deltas})
	if err == nil && answer.Interrupted != nil {
		h.interrupt(refusal(answer.Interrupted, nil))
	}
	again := h.every
	if err != nil {
		again = min(again, soonest)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if forgotten(err) {
		h.over = true
	}
	if !h.over {
		h.timer.Reset(again)
	}
}

// forgotten reports whether an error says that the reservation is not there any more.
func forgotten(err error) bool {
	code := status.Code(err)
	return code == codes.NotFound || code == codes.FailedPrecondition
}

// interrupt ends the call early.
func (h *held) interrupt(why *client.Refusal) {
	h.mu.Lock()
	h.cut = why
	end := h.end
	h.mu.Unlock()
	if end != nil {
		end(why)
	}
}

// EndBy implements doors.Held.
func (h *held) EndBy(end context.CancelCauseFunc) {
	h.mu.Lock()
	h.end = end
	why := h.cut
	h.mu.Unlock()
	if why != nil {
		end(why)
	}
}

// Grant implements doors.Held.
func (h *held) Grant() client.Grant { return h.grant }

// Show implements doors.Held.
func (h *held) Show(header http.Header) {
	for name, value := range h.headers {
		header.Set(name, value)
	}
}

// End implements doors.Held. For as long as endPatience the caller waits until llmgov has heard of it: usually its next call finds room that
// this one leaves.
func (h *held) End(e client.End) {
	h.mu.Lock()
	h.over = true
	h.timer.Stop()
	h.mu.Unlock()
	d := h.door
	d.mu.Lock()
	delete(d.open, h)
	d.mu.Unlock()
	of := ending{id: h.id, End: e, grant: h.grant, until: time.Now().Add(3 * h.every)}
	if d.disconnected() {
		d.tellLater(of)
		return
	}
	ctx, cancel := context.WithTimeout(d.telling, endPatience)
	defer cancel()
	if err := d.send(ctx, &of); !lost(err) {
		d.told(&of, err)
		return
	}
	d.tellLater(of)
}
