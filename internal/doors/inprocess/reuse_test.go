package inprocess_test

import (
	"net/http"
	"sync"
	"testing"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/governor/client"
	"github.com/llmgov/llmgov/governor/client/doors"
	"github.com/llmgov/llmgov/internal/doors/inprocess"
	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/internal/test/testkit/admissiontest"
	"github.com/llmgov/llmgov/tenants"
)

var completed = client.End{Outcome: client.Completed, Usage: client.Usage{Input: 50, Output: 5}, Reported: true}

// A lease that has ended reaches no other call, although the memory of its own is another's by now.
func TestLease_EndedReachesNoOther(t *testing.T) {
	governed, gov := open(t, func(p *tenants.Pool, _ *tenants.Tenant) { p.TPM = 600_000 })
	for range 20 { // a sync.Pool may forget
		before := tokens(gov)
		first := reserve(t, governed, "first")
		first.End(completed)
		second := reserve(t, governed, "second")
		first.Progress(30)
		first.ProgressDeltas(30)
		first.End(completed)
		first.Close()
		if first.Context().Err() == nil || second.Context().Err() != nil {
			t.Error("the context of the call that was closed goes on, or that of the other has ended")
		}
		shown := http.Header{}
		first.Show(shown)
		if got := shown.Get("X-Request-Id"); got != "first" {
			t.Errorf("the first call shows %q", got)
		}
		onlySecondRuns(t, gov)
		second.End(completed)
		second.Close()
		if got := tokens(gov) - before; got != 110 {
			t.Errorf("two calls of 55 tokens were charged %d", got)
		}
	}
}

// Progress that is still on its way when its call ends reaches no other call.
func TestLease_ProgressOverlapsItsEnd(t *testing.T) {
	cfg, list := policy(func(p *tenants.Pool, _ *tenants.Tenant) { p.TPM = 6_000_000 })
	ctl := admissiontest.Build(t, cfg, list...)
	door := inprocess.New(ctl)
	stream := asked
	stream.Stream = true
	for range 20 {
		first := testkit.Must(door.Reserve(t.Context(), stream))(t)
		first.Progress(client.Produced{Tokens: 7})
		first.End(client.End{Outcome: client.Completed, Usage: completed.Usage, Reported: true, Produced: client.Produced{Tokens: 7}})
		second := reserve(t, doors.Open(door, doors.Options{}), "second")
		first.Progress(client.Produced{Tokens: 9})
		onlySecondRuns(t, ctl.Governor())
		second.End(completed)
	}
}

// The same, by chance, for the race detector.
func TestLease_ProgressBesideItsEnd(t *testing.T) {
	governed, gov := open(t, func(p *tenants.Pool, _ *tenants.Tenant) { p.TPM = 6_000_000 })
	const calls = 200
	var late sync.WaitGroup
	for range calls {
		l := reserve(t, governed, "")
		late.Go(func() {
			l.Progress(0)
			l.Progress(7)
			l.ProgressDeltas(3)
		})
		late.Go(func() { l.Context() })
		l.End(completed)
	}
	late.Wait()
	if got := tokens(gov); got != calls*55 {
		t.Errorf("%d calls of 55 tokens were charged %d", calls, got)
	}
	if n, _ := gov.Leases(); n > 0 {
		t.Errorf("%d leases are left", n)
	}
}

func reserve(t *testing.T, governed *client.Client, id string) *client.Lease {
	t.Helper()
	req := asked
	req.ID = id
	req.Stream = true
	return testkit.Must(governed.Reserve(t.Context(), req))(t)
}

func onlySecondRuns(t *testing.T, gov *governor.Governor) {
	t.Helper()
	for _, l := range gov.State().Pools[0].Leases {
		if l.ID != "second" || l.State != "running" {
			t.Errorf("call %s is %s", l.ID, l.State)
		}
	}
}
