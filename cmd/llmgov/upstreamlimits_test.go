package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/llmgov/llmgov/internal/testkit"
	"github.com/llmgov/llmgov/internal/testkit/redistest"
)

// limitedMock is a provider with limits of its own, which can die and come back.
type limitedMock struct {
	t    *testing.T
	args []string
	port int
	url  string
	proc *process

	slots   int64 // how many calls may run at once; 0 is any number
	refused int64 // before it died last
}

func newLimitedMock(t *testing.T, args ...string) *limitedMock {
	m := &limitedMock{t: t, args: args, port: testkit.Port(t)}
	m.restart()
	return m
}

func (m *limitedMock) restart() {
	m.proc, m.url = startMockAt(m.t, m.port, m.args...)
}

// kill ends it. Once it is restarted, it counts the tokens of its minute anew.
func (m *limitedMock) kill() {
	m.refused += statsOf(m.t, m.url).Refused
	m.proc.kill()
}

// rests waits until it has noticed that the callers have left.
func (m *limitedMock) rests() {
	m.t.Helper()
	err := poll(func() error {
		if running := statsOf(m.t, m.url).Running; running > 0 {
			return fmt.Errorf("%d calls run at %s", running, m.url)
		}
		return nil
	})
	if err != nil {
		m.t.Fatal(err)
	}
}

// admitted is how many calls it has let in since it began. It fails the test if it has refused any, or if more ran at once than may.
func (m *limitedMock) admitted(when string) int64 {
	m.t.Helper()
	s := statsOf(m.t, m.url)
	if refused := m.refused + s.Refused; refused > 0 {
		m.t.Fatalf("%s: %s has refused %d calls", when, m.url, refused)
	}
	if m.slots > 0 && s.Peak > m.slots {
		m.t.Fatalf("%s: at %s %d calls ran at once, %d may", when, m.url, s.Peak, m.slots)
	}
	return s.Admitted
}

// limitedFleet is three gateways that share two providers with limits of their own through Redis.
func limitedFleet(t *testing.T, provisioned, onDemand *limitedMock, limits [2]string) *fleet {
	t.Helper()
	server := redistest.New(t)
	f := newFleet(t, 0, "p", "tpm", sharedLimit, "memory") // for its tenants
	config := fmt.Sprintf(`upstreams: {ptu: {base_url: %q}, paid: {base_url: %q}}
pools:
  p:
    models: ["*"]
    upstreams: [{name: ptu, %s}, {name: paid, %s, order: 1}]
    max_queue: 100
    expect_nodes: 3
store: %q
`, provisioned.url+"/v1", onDemand.url+"/v1", limits[0], limits[1], server.URL())
	if err := os.WriteFile(filepath.Join(f.dir, "llmgov.yaml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	f.gateways = make([]*process, 3)
	var starting sync.WaitGroup
	for i := range f.gateways {
		starting.Go(func() { f.gateways[i] = f.start(i) })
	}
	starting.Wait()
	return f
}

// Neither provider ever refuses a call, and what is provisioned is used before what is on demand.
func TestUpstreamLimits_Redis(t *testing.T) {
	testkit.Long(t, "fills a limit in real time")
	t.Parallel()
	provisioned := newLimitedMock(t, "--tpm=30000", "--output-tokens=480")
	onDemand := newLimitedMock(t, "--tpm=120000", "--output-tokens=480")
	f := limitedFleet(t, provisioned, onDemand, [2]string{"tpm: 30000", "tpm: 120000"})
	var first, spare mockStats
	// The pool lets 2,500 tokens go in a second. If they went to both by their limits, it would take 54 s.
	took := f.floodUntil(f.gateways, 45*time.Second, func() bool {
		first = statsOf(t, provisioned.url)
		spare = statsOf(t, onDemand.url)
		return first.WindowTokensPeak >= 27_000 && spare.Admitted > 0
	})
	t.Logf("of 30,000 and 120,000 tokens a minute %d and %d were used in %v", first.WindowTokensPeak, spare.WindowTokensPeak, took)
	if first.WindowTokensPeak < 27_000 || spare.Admitted == 0 || spare.WindowTokensPeak > 2*first.WindowTokensPeak {
		t.Error("what is provisioned was not used before what is on demand, or nothing beyond it")
	}
	f.gateways[0].kill()
	f.flood(f.gateways[1:], 5*time.Second)
	provisioned.admitted("after one gateway died")
	if onDemand.admitted("after one gateway died") == spare.Admitted {
		t.Error("after one gateway died no call was served")
	}
}

// Gateways and providers are killed in turn, and come back. Neither provider ever refuses a call, and there are
// always calls at those that are left.
func TestUpstreamLimits_KilledInTurn(t *testing.T) {
	testkit.Long(t, "kills five processes in turn")
	t.Parallel()
	provisioned := newLimitedMock(t, "--first-token=50ms")
	provisioned.slots = 6
	onDemand := newLimitedMock(t, "--first-token=50ms")
	onDemand.slots = 24
	f := limitedFleet(t, provisioned, onDemand, [2]string{"concurrency: 6", "concurrency: 24"})
	served := func(when string, gateways []*process, mocks ...*limitedMock) {
		t.Helper()
		before := map[*limitedMock]int64{}
		for _, m := range mocks {
			before[m] = m.admitted(when)
		}
		took := f.floodUntil(gateways, time.Minute, func() bool {
			return !slices.ContainsFunc(mocks, func(m *limitedMock) bool { return m.admitted(when) < before[m]+20 })
		})
		t.Logf("%s: 20 calls at each provider that is left in %v", when, took)
		for _, m := range mocks {
			m.rests()
			if n := m.admitted(when) - before[m]; n < 20 {
				t.Errorf("%s: %s had %d calls in %v", when, m.url, n, took)
			}
		}
	}
	served("at first", f.gateways, provisioned, onDemand)
	for i := range f.gateways {
		f.gateways[i].kill()
		served(fmt.Sprintf("while gateway %d was dead", i), slices.Concat(f.gateways[:i], f.gateways[i+1:]), provisioned, onDemand)
		f.gateways[i] = f.start(i)
		served(fmt.Sprintf("after gateway %d came back", i), f.gateways, provisioned, onDemand)
	}
	provisioned.kill()
	served("while what is provisioned was dead", f.gateways, onDemand)
	provisioned.restart()
	served("after what is provisioned came back", f.gateways, provisioned, onDemand)
	onDemand.kill()
	served("while what is on demand was dead", f.gateways, provisioned)
	onDemand.restart()
	served("after what is on demand came back", f.gateways, provisioned, onDemand)
}
