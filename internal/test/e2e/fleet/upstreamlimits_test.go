package fleet

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/llmgov/llmgov/internal/lab/mock"
	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/internal/test/testkit/processtest"
	"github.com/llmgov/llmgov/internal/test/testkit/redistest"
)

// limitedModel is a provider with limits of its own.
type limitedModel struct {
	*processtest.Provider
	t     *testing.T
	slots int64 // how many calls may run at once; 0 is any number
}

// rests waits until it has noticed that the callers have left.
func (m *limitedModel) rests() {
	m.t.Helper()
	redistest.Eventually(m.t, "no call runs at "+m.URL, func() bool { return m.Stats().Running == 0 })
}

// admitted is how many calls it has let in. It fails the test if it has refused any, or if more ran at once than may.
func (m *limitedModel) admitted(when string) int64 {
	m.t.Helper()
	s := m.Stats()
	if s.Refused > 0 {
		m.t.Fatalf("%s: %s has refused %d calls", when, m.URL, s.Refused)
	}
	if m.slots > 0 && s.PeakRunning > m.slots {
		m.t.Fatalf("%s: at %s %d calls ran at once, %d may", when, m.URL, s.PeakRunning, m.slots)
	}
	return s.Admitted
}

// limitedFleet is three gateways that share two providers with limits of their own through Redis.
type limitedFleet struct {
	flooded
	models []*limitedModel
}

func newLimitedFleet(t *testing.T, provisioned, onDemand *limitedModel, limits [2]string) *limitedFleet {
	t.Helper()
	config := fmt.Sprintf(`upstreams: {ptu: {base_url: %q}, paid: {base_url: %q}}
pools:
  p:
    models: ["*"]
    upstreams: [{name: ptu, %s}, {name: paid, %s, order: 1}]
    max_queue: 100
    expect_nodes: 3
store: %q
`, provisioned.URL, onDemand.URL, limits[0], limits[1], redistest.New(t).URL())
	f := &limitedFleet{models: []*limitedModel{provisioned, onDemand}}
	f.fleet = newFleet(t, 3, config, map[string]string{"a": "weight: 1, max_wait: 2s", "b": "weight: 3, max_wait: 2s"})
	return f
}

// Neither provider ever refuses a call, and what is provisioned is used before what is on demand.
func TestUpstreamLimits_Redis(t *testing.T) {
	testkit.Long(t, "fills a limit in real time")
	t.Parallel()
	provisioned := &limitedModel{processtest.NewProvider(t, mock.Config{TPM: 30_000, OutputTokens: 480}), t, 0}
	onDemand := &limitedModel{processtest.NewProvider(t, mock.Config{TPM: 120_000, OutputTokens: 480}), t, 0}
	f := newLimitedFleet(t, provisioned, onDemand, [2]string{"tpm: 30000", "tpm: 120000"})
	var first, spare mock.Stats
	// The pool lets 2,500 tokens go in a second. If they went to both by their limits, it would take 54 s.
	took := f.floodUntil(f.gateways, 45*time.Second, func() bool {
		first = provisioned.Stats()
		spare = onDemand.Stats()
		return first.WindowTokensPeak >= 27_000 && spare.Admitted > 0
	})
	t.Logf("of 30,000 and 120,000 tokens a minute %d and %d were used in %v", first.WindowTokensPeak, spare.WindowTokensPeak, took)
	if first.WindowTokensPeak < 27_000 || spare.Admitted == 0 || spare.WindowTokensPeak > 2*first.WindowTokensPeak {
		t.Error("what is provisioned was not used before what is on demand, or nothing beyond it")
	}
	f.killInTurn(onDemand) // what is provisioned is full
}

// Of two providers with limits on calls at once and in a minute neither ever has more, also when each gateway and each provider
// is killed under load and comes back.
func TestUpstreamLimits_KilledInTurn(t *testing.T) {
	testkit.Long(t, "kills five servers in turn")
	t.Parallel()
	config := mock.Config{FirstToken: 50 * time.Millisecond, RPM: 6000}
	provisioned := &limitedModel{processtest.NewProvider(t, config), t, 6}
	onDemand := &limitedModel{processtest.NewProvider(t, config), t, 24}
	f := newLimitedFleet(t, provisioned, onDemand, [2]string{"concurrency: 6, rpm: 6000", "concurrency: 24, rpm: 6000"})
	f.during("the beginning", func() {}, provisioned, onDemand)
	f.killInTurn(provisioned, onDemand)
	f.during("the death of what is provisioned", provisioned.Kill, onDemand)
	f.during("its return", provisioned.Restart, provisioned, onDemand)
	f.during("the death of what is on demand", onDemand.Kill, provisioned)
	f.during("its return", onDemand.Restart, provisioned, onDemand)
}

// killInTurn kills each gateway under load, and starts it again. Afterwards there are calls at these providers.
func (f *limitedFleet) killInTurn(at ...*limitedModel) {
	f.t.Helper()
	for i, victim := range f.gateways {
		f.during(fmt.Sprint("the death of gateway ", i), victim.kill, at...)
		victim.restart()
		f.during(fmt.Sprint("the return of gateway ", i), func() {}, at...)
	}
}

// during has something happen while all gateways are asked for calls. Afterwards each of these providers gets 20 more.
func (f *limitedFleet) during(event string, happen func(), at ...*limitedModel) {
	f.t.Helper()
	var before []int64
	after := func() (more []int64) {
		for i, m := range at {
			more = append(more, m.admitted(event)-before[i])
		}
		return more
	}
	looks := 0
	took := f.floodUntil(f.gateways, time.Minute, func() bool {
		looks++
		switch looks {
		case 1: // the calls begin
			return false
		case 2:
			happen()
			for _, m := range at {
				before = append(before, m.admitted(event))
			}
			return false
		}
		return slices.Min(after()) >= 20
	})
	f.t.Logf("%s: 20 calls at each provider in %v", event, took)
	if more := after(); slices.Min(more) < 20 {
		f.t.Errorf("%s: the providers had %d calls in %v", event, more, took)
	}
	for _, m := range f.models {
		m.rests()
		m.admitted(event)
	}
}
