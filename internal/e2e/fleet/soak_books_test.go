package fleet

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/llmgov/llmgov/internal/decisions"
	"github.com/llmgov/llmgov/internal/mock"
	"github.com/llmgov/llmgov/internal/testkit/processtest"
)

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
