package fleet

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/llmgov/llmgov/internal/lab/load"
	"github.com/llmgov/llmgov/internal/lab/mock"
	"github.com/llmgov/llmgov/internal/ops/decisions"
	"github.com/llmgov/llmgov/internal/test/testkit/processtest"
	"github.com/llmgov/llmgov/internal/test/testkit/redistest"
)

var soakFor = flag.Duration("soak", 0, "how long gateways have to endure; make soak has 30 minutes")

// soakTPM is the limit of the steady provider: a tenth more than its callers ask for, so that their bursts have to wait.
const soakTPM = 900_000

// soak is two gateways, their store and their providers, under calls for a long time. The first gateway runs
// from the beginning to the end, and the second is restarted again and again.
type soak struct {
	*scene
	steady, slow, dying *processtest.Provider
	front               *balancer
	figures             *soakFigures
	lives               []*processtest.Process // all that there were, for their logs
	changes, mishaps    int
	began               time.Time
}

// TestSoak: nothing grows in gateways and their store, every call is answered, and the tokens charged are those that
// providers produced, while streams, reloads, changes of keys, restarts, and slow and dying providers go on.
func TestSoak(t *testing.T) {
	if *soakFor == 0 {
		t.Skip("takes half an hour; make soak")
	}
	s := newSoak(t)
	idle := s.figures.now()
	report := s.endure()
	s.figures.stop()
	s.front.transport.CloseIdleConnections()
	time.Sleep(100 * time.Second) // until connections to providers have been idle for long enough
	rest := s.figures.now()
	s.checkAnswers(report)
	s.stopAll()
	s.checkCharged()
	s.figures.report(idle, rest)
}

func newSoak(t *testing.T) *soak {
	s := &soak{
		steady: processtest.NewProvider(t, steadyProvider),
		slow:   processtest.NewProvider(t, slowProvider),
		dying:  processtest.NewProvider(t, dyingProvider),
	}
	config := fmt.Sprintf(`
upstreams: {steady: {base_url: %s}, slow: {base_url: %s}, dying: {base_url: %s}}
pools:
  steady: {models: [steady], upstream: steady, tpm: %d, expect_nodes: 2}
  frail: {models: [frail], upstreams: [{name: slow}, {name: dying}], concurrency: 100, expect_nodes: 2}
decision_log: {path: decisions.jsonl, max_size: 16MiB, keep: 1000}
state_dir: state
`, s.steady.URL, s.slow.URL, s.dying.URL, soakTPM)
	s.scene = newScene(t, &redisDisaster{Server: redistest.New(t), t: t}, 2, config, soakSettings(0))
	for _, g := range s.gateways {
		s.lives = append(s.lives, g.proc.Load())
	}
	s.front = newBalancer(t, s.gateways)
	s.figures = newSoakFigures(s.scene)
	return s
}

// endure lets calls, changes and mishaps go on for as long as asked.
func (s *soak) endure() *load.Report {
	s.began = time.Now()
	over := make(chan struct{})
	reports := make(chan *load.Report, 1)
	go func() {
		plan := soakPlan(*soakFor)
		reports <- load.Run(s.t.Context(), plan, load.Options{URL: "http://front", Transport: s.front})
		close(over)
	}()
	changing := make(chan struct{})
	go func() {
		defer close(changing)
		s.change(over)
	}()
	pause := min(45*time.Second, *soakFor/12)
	list := s.listMishaps()
	for {
		select {
		case <-over:
			<-changing
			return <-reports
		case <-time.After(pause):
		}
		if time.Since(s.began)+pause < *soakFor { // because restarts must end before the calls do
			list[s.mishaps%len(list)]()
			s.mishaps++
		}
	}
}

// listMishaps are what happens, in turn.
func (s *soak) listMishaps() []func() {
	restart := func() { s.restart(1) }
	return []func(){
		restart,
		func() { die(s.dying, 15*time.Second) },
		func() {
			s.ways[0].cut()
			time.Sleep(5 * time.Second)
			s.ways[0].heal()
		},
		func() {
			s.store.Stop()
			time.Sleep(2 * time.Second)
			s.store.Start()
		},
		restart,
		func() {
			s.delay(200 * time.Millisecond)
			time.Sleep(10 * time.Second)
			s.delay(0)
		},
		s.store.Flush,
		func() { die(s.dying, time.Second) },
	}
}

// restart stops a gateway in order, and starts another in its place.
func (s *soak) restart(i int) {
	s.gateways[i].end(syscall.SIGTERM)
	s.gateways[i].restart()
	s.lives = append(s.lives, s.gateways[i].proc.Load())
}

func (s *soak) stopAll() {
	for _, g := range s.gateways {
		g.end(syscall.SIGTERM)
	}
}

// soakSettings are the n-th policy. Each has a visitor that no other policy has.
func soakSettings(n int) map[string]string {
	settings := map[string]string{fmt.Sprint("visitor-", n): fmt.Sprintf("weight: %d, rpm: 600", 1+n%5)}
	for _, x := range soakCrowd {
		settings[x.Name] = x.policy
	}
	return settings
}

// apply puts the n-th policy in force.
func (s *soak) apply(n int) {
	file := filepath.Join(s.dir, "tenants", "all.yaml")
	if err := os.WriteFile(file+".new", []byte(policy(soakSettings(n))), 0o600); err != nil {
		s.t.Error(err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		s.t.Error(err)
	}
}

// The providers of a soak. Only the steady one has a limit, which it enforces.
var (
	steadyProvider = mock.Config{TPM: soakTPM, FirstToken: 200 * time.Millisecond, TokensPerSecond: 100, Seed: 1}
	slowProvider   = mock.Config{SlowRate: 0.1, SlowChunk: 100 * time.Millisecond, FirstToken: 500 * time.Millisecond, TokensPerSecond: 50, Seed: 2}
	dyingProvider  = mock.Config{ErrorRate: 0.02, HangupRate: 0.02, FirstToken: 200 * time.Millisecond, TokensPerSecond: 50, Seed: 3}
)

// die has a provider cut all connections, and come back after a while.
func die(p *processtest.Provider, away time.Duration) {
	p.Kill()
	time.Sleep(away)
	p.Restart()
}

// charged are tokens by pool, and the calls that they were charged for.
type charged struct{ tokens, calls map[string]int64 }

func newCharged() *charged { return &charged{tokens: map[string]int64{}, calls: map[string]int64{}} }

// read adds up the decision log in a folder.
func (c *charged) read(t *testing.T, dir string) {
	pools := map[uint64]string{} // of the calls that have no end yet
	for line, err := range decisions.Read(decisions.Files(filepath.Join(dir, "decisions.jsonl"))) {
		if err != nil {
			t.Error(err)
			return
		}
		switch line.Kind {
		case decisions.Started:
			c.complete(t, pools)
		case decisions.Asked:
			pools[line.Call] = line.Ask.Pool
		case decisions.Left, decisions.Refused:
			delete(pools, line.Call)
		case decisions.Lost:
			t.Errorf("a decision log lacks %d lines", line.Lines)
		case decisions.Ended:
			pool := pools[line.Call]
			delete(pools, line.Call)
			c.tokens[pool] += line.Usage.Input + line.Usage.Output
			c.calls[pool]++
		}
	}
	c.complete(t, pools)
}

// complete wants no calls to be left when a gateway has ended, and forgets those that are.
func (c *charged) complete(t *testing.T, pools map[uint64]string) {
	if len(pools) != 0 {
		t.Errorf("%d calls in a decision log have no end", len(pools))
	}
	clear(pools)
}

// checkCharged compares the tokens that all gateways charged with those that the providers produced. They are the same where
// all calls come to their end. Of calls that are cut off, what is on the way at that moment differs.
func (s *soak) checkCharged() {
	c := newCharged()
	for _, p := range s.lives {
		c.read(s.t, p.Dir)
	}
	steady := s.steady.Stats()
	s.t.Logf("steady: charged %d tokens of %d calls; the provider produced %d in %d calls, its fullest minute had %d of %d, and it refused %d",
		c.tokens["steady"], c.calls["steady"], steady.TokensProduced, steady.Admitted, steady.WindowTokensPeak, int64(soakTPM), steady.Refused)
	if c.tokens["steady"] != steady.TokensProduced || steady.Refused > 0 {
		s.t.Errorf("steady: charged %d tokens; the provider has %+v", c.tokens["steady"], steady)
	}
	slow := s.slow.Stats()
	dying := s.dying.Stats()
	produced := slow.TokensProduced + dying.TokensProduced
	cut := slow.Cancelled + dying.Cancelled + dying.Hangups
	s.t.Logf("frail: charged %d tokens of %d calls; the providers produced %d in %d calls, of which %d were cut off",
		c.tokens["frail"], c.calls["frail"], produced, slow.Admitted+dying.Admitted, cut)
	if off := c.tokens["frail"] - produced; off < -10*cut || off > 50*cut {
		s.t.Errorf("frail: charged %d tokens more than produced, with %d calls cut off", off, cut)
	}
}
