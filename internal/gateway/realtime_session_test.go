package gateway

import (
	"io"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/llmgov/llmgov/internal/gateway/head"
)

// A response that a hang-up leaves unfinished is charged by estimate, and not once more
// if its end comes from the upstream while the session is being closed.
func TestRealtimeIsSettledOnce(t *testing.T) {
	g := newGateway(t, before, answerOK)
	w := g.world.Load()
	c := &call{g: g, world: w, r: httptest.NewRequest("GET", "/v1/realtime?model=m", nil), id: "id", head: &head.Head{Model: "m", Copies: 1}, admitted: time.Now()}
	c.w.reset(httptest.NewRecorder(), time.Minute)
	c.tenant, _ = w.Snapshot.TenantByName("acme")
	c.estimates, c.route = w.Estimates(c.tenant.Index), find(c.r).route
	if f := c.choosePool(); f != nil {
		t.Fatal(f.Message)
	}
	if f := c.admit(); f != nil {
		t.Fatal(f.Message)
	}
	c.goTo(&c.first, 0, false)
	c.try.sent.Store(true)
	used := func() int64 {
		st, _ := g.gov.TenantState("acme")
		return st.Budgets[0].Used
	}

	s := newSession(c, nil)
	meter := func(kind, text string) { s.meter(t.Context(), kind, []byte(text)) }
	meter("response.created", `{"type":"response.created","response":{"id":"r"}}`)
	for range 10 {
		meter("response.output_text.delta", `{"type":"response.output_text.delta","delta":"a"}`)
	}
	s.settle(sessionEnd{ofClient, io.EOF})
	settled := used()
	meter("response.done", `{"type":"response.done","response":{"usage":{"input_tokens":700,"output_tokens":500,"total_tokens":1200}}}`)
	if now := used(); settled < 10 || now != settled {
		t.Errorf("a response of 10 deltas took %d when its client hung up, and %d after its end came", settled, now)
	}
}
