package main

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/llmgov/llmgov/internal/mock"
	"github.com/llmgov/llmgov/internal/testkit"
	"github.com/llmgov/llmgov/internal/testkit/redistest"
)

// limitedMock is a provider with limits of its own, whose connections can die while it goes on counting.
type limitedMock struct {
	t     *testing.T
	mock  *mock.Server
	slots int64 // how many calls may run at once; 0 is any number
	port  int
	serve *http.Server
}

func newLimitedMock(t *testing.T, config mock.Config, slots int64) *limitedMock {
	t.Helper()
	counts, err := mock.New(config)
	if err != nil {
		t.Fatal(err)
	}
	m := &limitedMock{t: t, mock: counts, slots: slots, port: testkit.Port(t)}
	m.restart()
	t.Cleanup(m.kill)
	return m
}

func (m *limitedMock) url() string {
	return fmt.Sprintf("http://127.0.0.1:%d", m.port)
}

func (m *limitedMock) restart() {
	m.t.Helper()
	listener, err := net.Listen("tcp", strings.TrimPrefix(m.url(), "http://"))
	if err != nil {
		m.t.Fatal(err)
	}
	m.serve = &http.Server{Handler: m.mock}
	go func() { _ = m.serve.Serve(listener) }()
}

func (m *limitedMock) kill() {
	_ = m.serve.Close()
}

// rests waits until it has noticed that the callers have left.
func (m *limitedMock) rests() {
	m.t.Helper()
	err := poll(func() error {
		if running := m.mock.Stats().Running; running > 0 {
			return fmt.Errorf("%d calls run at %s", running, m.url())
		}
		return nil
	})
	if err != nil {
		m.t.Fatal(err)
	}
}

// admitted is how many calls it has let in. It fails the test if it has refused any, or if more ran at once than may.
func (m *limitedMock) admitted(when string) int64 {
	m.t.Helper()
	s := m.mock.Stats()
	if s.Refused > 0 {
		m.t.Fatalf("%s: %s has refused %d calls", when, m.url(), s.Refused)
	}
	if m.slots > 0 && s.PeakRunning > m.slots {
		m.t.Fatalf("%s: at %s %d calls ran at once, %d may", when, m.url(), s.PeakRunning, m.slots)
	}
	return s.Admitted
}

// limitedFleet is three gateways that share two providers with limits of their own through Redis.
type limitedFleet struct {
	*fleet
	mocks []*limitedMock
}

func newLimitedFleet(t *testing.T, provisioned, onDemand *limitedMock, limits [2]string) *limitedFleet {
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
`, provisioned.url()+"/v1", onDemand.url()+"/v1", limits[0], limits[1], server.URL())
	if err := os.WriteFile(filepath.Join(f.dir, "llmgov.yaml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	f.gateways = make([]*process, 3)
	var starting sync.WaitGroup
	for i := range f.gateways {
		starting.Go(func() { f.gateways[i] = f.start(i) })
	}
	starting.Wait()
	return &limitedFleet{fleet: f, mocks: []*limitedMock{provisioned, onDemand}}
}

// Neither provider ever refuses a call, and what is provisioned is used before what is on demand.
func TestUpstreamLimits_Redis(t *testing.T) {
	testkit.Long(t, "fills a limit in real time")
	t.Parallel()
	provisioned := newLimitedMock(t, mock.Config{TPM: 30_000, OutputTokens: 480}, 0)
	onDemand := newLimitedMock(t, mock.Config{TPM: 120_000, OutputTokens: 480}, 0)
	f := newLimitedFleet(t, provisioned, onDemand, [2]string{"tpm: 30000", "tpm: 120000"})
	var first, spare mock.Stats
	// The pool lets 2,500 tokens go in a second. If they went to both by their limits, it would take 54 s.
	took := f.floodUntil(f.gateways, 45*time.Second, func() bool {
		first = provisioned.mock.Stats()
		spare = onDemand.mock.Stats()
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
	provisioned := newLimitedMock(t, config, 6)
	onDemand := newLimitedMock(t, config, 24)
	f := newLimitedFleet(t, provisioned, onDemand, [2]string{"concurrency: 6, rpm: 6000", "concurrency: 24, rpm: 6000"})
	f.during("the beginning", func() {}, provisioned, onDemand)
	f.killInTurn(provisioned, onDemand)
	f.during("the death of what is provisioned", provisioned.kill, onDemand)
	f.during("its return", provisioned.restart, provisioned, onDemand)
	f.during("the death of what is on demand", onDemand.kill, provisioned)
	f.during("its return", onDemand.restart, provisioned, onDemand)
}

// killInTurn kills each gateway under load, and starts it again. Afterwards there are calls at these providers.
func (f *limitedFleet) killInTurn(at ...*limitedMock) {
	f.t.Helper()
	for i, victim := range f.gateways {
		f.during(fmt.Sprint("the death of gateway ", i), victim.kill, at...)
		f.gateways[i] = f.start(i)
		f.during(fmt.Sprint("the return of gateway ", i), func() {}, at...)
	}
}

// during has something happen while all gateways are asked for calls. Afterwards each of these providers gets 20 more.
func (f *limitedFleet) during(event string, happen func(), at ...*limitedMock) {
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
	for _, m := range f.mocks {
		m.rests()
		m.admitted(event)
	}
}
