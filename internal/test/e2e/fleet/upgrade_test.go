package fleet

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/llmgov/llmgov/federation"
	"github.com/llmgov/llmgov/internal/lab/distribution"
	"github.com/llmgov/llmgov/internal/lab/load"
	"github.com/llmgov/llmgov/internal/lab/mock"
	"github.com/llmgov/llmgov/internal/ops/adminapi"
	"github.com/llmgov/llmgov/internal/test/testkit/processtest"
	"github.com/llmgov/llmgov/internal/test/testkit/redistest"
)

// previousRelease names the binary of the release before, in the environment.
const previousRelease = "LLMGOV_PREVIOUS"

// upgrade is a fleet whose gateways are replaced by those of another release, and what it governs. Each provider
// enforces the limit that bears its name.
type upgrade struct {
	*fleet
	front     *balancer
	providers map[string]*processtest.Provider
	keys      []string
}

const upgradeTPM, upgradeRPM, upgradeSlots, upgradeBudget = 240_000, 120, 6, 400

// upgradePools are the pools, each with a limit of another kind, and their only tenants' policies.
var upgradePools = []struct {
	name, rules, policy string
	mock                mock.Config
	load                load.Tenant
}{
	{"tokens", fmt.Sprint("tpm: ", upgradeTPM), "weight: 2, max_wait: 2s", mock.Config{TPM: upgradeTPM, FirstToken: 100 * time.Millisecond, TokensPerSecond: 200}, load.Tenant{Rate: 60, Stream: 0.5}},
	{"minute", "rpm: 60000", fmt.Sprint("rpm: ", upgradeRPM), mock.Config{RPM: upgradeRPM}, load.Tenant{Rate: 5}},
	{"strict", "rpm: 60000, tenant_limits: strict", fmt.Sprint("rpm: ", upgradeRPM), mock.Config{RPM: upgradeRPM}, load.Tenant{Rate: 5}},
	{"slots", fmt.Sprint("concurrency: ", upgradeSlots), "max_wait: 1s", mock.Config{FirstToken: 300 * time.Millisecond}, load.Tenant{Rate: 20}},
	{"budget", "rpm: 60000", fmt.Sprintf("budgets: [{requests: %d, per: month}]", upgradeBudget), mock.Config{}, load.Tenant{Rate: 10}},
	{"spent", fmt.Sprintf("rpm: 60000, budgets: [{requests: %d, per: month}]", upgradeBudget), "weight: 1", mock.Config{}, load.Tenant{Rate: 10}},
}

// TestUpgrade: three gateways are replaced one after the other by those of this release, and then by those of the release
// before again. Meanwhile every call is answered, no limit is exceeded, and what one release writes the other reads.
func TestUpgrade(t *testing.T) {
	if os.Getenv(previousRelease) == "" {
		t.Skip("needs the release before: make test-upgrade")
	}
	for name, store := range stores {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			newUpgrade(t, store(t)).roll()
		})
	}
}

func newUpgrade(t *testing.T, store string) *upgrade {
	t.Helper()
	u := &upgrade{fleet: &fleet{t: t, dir: t.TempDir()}, providers: map[string]*processtest.Provider{}}
	upstreams := "upstreams:\n"
	pools := "pools:\n"
	settings := map[string]string{}
	for _, p := range upgradePools {
		u.providers[p.name] = processtest.NewProvider(t, p.mock)
		upstreams += fmt.Sprintf("  %s: {base_url: %s}\n", p.name, u.providers[p.name].URL)
		pools += fmt.Sprintf("  %s: {models: [%s], upstream: %s, expect_nodes: 3, %s}\n", p.name, p.name, p.name, p.rules)
		settings[p.name] = p.policy
	}
	config := upstreams + pools + "timeouts: {drain: 12s}\nstate_dir: state\ndecision_log: {path: decisions.jsonl}\n"
	processtest.Write(t, u.dir, map[string]string{"llmgov.yaml": config, "tenants/all.yaml": policy(settings)})
	for i := range 3 {
		g := &gateway{f: u.fleet, i: i, args: []string{"--store", store}}
		u.gateways = append(u.gateways, g)
		u.startRelease(g, os.Getenv(previousRelease), t.TempDir())
	}
	u.front = newBalancer(t, u.gateways)
	return u
}

// startRelease starts a gateway of a release in a folder.
func (u *upgrade) startRelease(g *gateway, program, dir string) {
	u.t.Helper()
	c := g.command()
	c.Program = program
	c.Dir = dir
	g.proc.Store(c.Serve(u.t))
}

// roll replaces all gateways, one after the other, and when they have switched to the newest format, back.
func (u *upgrade) roll() {
	stop := u.flood()
	before := max(1, u.format(u.gateways[0]))
	u.replaceAll("", func(last int) { u.await(u.gateways[:last], before) })
	u.await(u.gateways, federation.Format)
	u.replaceAll(os.Getenv(previousRelease), func(last int) { u.await(u.gateways[last:], before) })
	u.check(stop())
}

// replaceAll replaces all gateways, and calls mixed each time that there are both releases, with the number of those replaced.
func (u *upgrade) replaceAll(release string, mixed func(replaced int)) {
	for i, g := range u.gateways {
		before := u.served()
		u.useNewKey()
		u.replace(g, release)
		u.useKeys()
		if replaced := i + 1; replaced < len(u.gateways) {
			mixed(replaced)
		}
		time.Sleep(time.Second)
		if served := u.served() - before; served < 20 {
			u.t.Errorf("while %q took the place of gateway %d, %d calls were served", release, i, served)
		}
	}
}

// format is the format that a gateway shows.
func (u *upgrade) format(g *gateway) int {
	var v struct {
		Pools []struct{ Sharing *adminapi.Sharing }
	}
	if err := askAdmin(http.MethodGet, g.proc.Load().Admin+"/api/v1/snapshot", "", &v); err != nil {
		u.t.Error(err)
		return 0
	}
	return v.Pools[0].Sharing.Format
}

// await waits until gateways show a format. They take a minute to forget a gateway, and another to be sure.
func (u *upgrade) await(gateways []*gateway, want int) {
	u.t.Helper()
	deadline := time.Now().Add(4 * time.Minute)
	for _, g := range gateways {
		for u.format(g) != want {
			if time.Now().After(deadline) {
				u.t.Errorf("gateway %d shows format %d, want %d", g.i, u.format(g), want)
				return
			}
			time.Sleep(100 * time.Millisecond)
		}
	}
}

// served is how many calls all providers have served.
func (u *upgrade) served() (n int64) {
	for _, p := range u.providers {
		n += p.Stats().Completed
	}
	return n
}

// flood lets all tenants ask until stop is called, which returns what became of all calls.
func (u *upgrade) flood() (stop func() *load.Report) {
	ctx, end := context.WithCancel(u.t.Context())
	reports := make(chan *load.Report)
	var rounds sync.WaitGroup
	rounds.Go(func() {
		tick := time.NewTicker(upgradeRound)
		defer tick.Stop()
		for seed := uint64(1); ctx.Err() == nil; seed++ {
			rounds.Go(func() {
				reports <- load.Run(u.t.Context(), upgradePlan(seed), load.Options{URL: "http://front", Transport: u.front})
			})
			<-tick.C
		}
	})
	total := make(chan *load.Report)
	go func() {
		sum := &load.Report{}
		for r := range reports {
			sum.Total.Sent += r.Total.Sent
			sum.Total.OK += r.Total.OK
			sum.Total.Refused += r.Total.Refused
			sum.Total.Failures = append(sum.Total.Failures, r.Total.Failures...)
		}
		total <- sum
	}()
	return func() *load.Report {
		end()
		rounds.Wait()
		close(reports)
		return <-total
	}
}

// upgradeRound is the length of a plan of calls, each of which begins as the one before ends.
const upgradeRound = 2 * time.Second

func upgradePlan(seed uint64) *load.Plan {
	plan := &load.Plan{For: upgradeRound, Seed: seed, Timeout: time.Minute, MaxInFlight: 1000}
	for _, p := range upgradePools {
		t := calling(p.name, p.load, "").Tenant
		t.Model = p.name
		t.Output = distribution.Constant(50)
		plan.Tenants = append(plan.Tenants, t)
	}
	return plan
}

// replace stops a gateway in order, and starts one of a release in its folder.
func (u *upgrade) replace(g *gateway, release string) {
	u.end(g)
	u.startRelease(g, release, g.proc.Load().Dir)
}

// strange are lines of logs that no release may write because of another one.
var strange = regexp.MustCompile(`(?m)^.*("level":"ERROR"|another release|damaged|not understood|panic).*$`)

func (u *upgrade) end(g *gateway) {
	u.t.Helper()
	p := g.proc.Load()
	g.end(syscall.SIGTERM)
	for _, line := range strange.FindAllString(p.Log(), 3) {
		u.t.Errorf("gateway %d, %s: %.500s", g.i, p, line)
	}
}

// useNewKey makes a key at a gateway of each release that there is now.
func (u *upgrade) useNewKey() {
	for _, g := range []*gateway{u.gateways[0], u.gateways[2]} {
		var made struct{ Key string }
		if err := askAdmin(http.MethodPost, g.proc.Load().Admin+"/api/v1/keys", `{"tenant":"tokens"}`, &made); err != nil {
			u.t.Errorf("a key: %v", err)
		}
		u.keys = append(u.keys, made.Key)
	}
}

// useKeys uses all keys at all gateways.
func (u *upgrade) useKeys() {
	for _, g := range u.gateways {
		for _, key := range u.keys {
			redistest.Eventually(u.t, "a gateway knows a key", func() bool {
				return g.proc.Load().Chat(u.t, key).Status != http.StatusUnauthorized
			})
		}
	}
}

// check looks at the outcome of all calls, at the providers' books, and at the logs of all releases.
func (u *upgrade) check(r *load.Report) {
	for _, g := range u.gateways {
		u.end(g)
	}
	t := &r.Total
	u.t.Logf("%d calls: %d served, %d refused; %d went to another gateway", t.Sent, t.OK, t.Refused, u.front.moved.Load())
	for _, k := range t.Failures {
		u.t.Errorf("%d calls failed: %s, for example %s", k.Count, k.Kind, k.Example)
	}
	if t.OK+t.Refused != t.Sent {
		u.t.Errorf("of %d calls %d were served and %d refused", t.Sent, t.OK, t.Refused)
	}
	c := newCharged()
	for _, g := range u.gateways {
		c.read(u.t, g.proc.Load().Dir)
	}
	for name, p := range u.providers {
		st := p.Stats()
		u.t.Logf("%s: charged %d tokens of %d calls; the provider produced %d in %d, at most %d at once, and refused %d; its fullest minute has %d tokens and %d calls",
			name, c.tokens[name], c.calls[name], st.TokensProduced, st.Admitted, st.PeakRunning, st.Refused, st.WindowTokensPeak, st.WindowRequestsPeak)
		if st.Refused > 0 || c.tokens[name] != st.TokensProduced {
			u.t.Errorf("%s: the provider refused %d, and produced %d tokens; charged %d", name, st.Refused, st.TokensProduced, c.tokens[name])
		}
	}
	if peak := u.providers["slots"].Stats().PeakRunning; peak > upgradeSlots {
		u.t.Errorf("%d calls at once, of %d", peak, upgradeSlots)
	}
	for _, name := range []string{"budget", "spent"} {
		if n := u.providers[name].Stats().Admitted; n > upgradeBudget {
			u.t.Errorf("%s: %d calls, of %d", name, n, upgradeBudget)
		}
	}
}
