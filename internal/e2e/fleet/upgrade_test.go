package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/llmgov/llmgov/federation"
	"github.com/llmgov/llmgov/internal/adminapi"
	"github.com/llmgov/llmgov/internal/distribution"
	"github.com/llmgov/llmgov/internal/load"
	"github.com/llmgov/llmgov/internal/mock"
	"github.com/llmgov/llmgov/tenants"
)

// previousRelease names the binary of the release before, in the environment.
const previousRelease = "LLMGOV_PREVIOUS"

// upgrade is a fleet whose gateways are replaced by those of another release, and what it governs. Each provider
// enforces the limit that bears its name.
type upgrade struct {
	t         *testing.T
	config    string
	store     string
	gateways  []*gatewayInTumult // whose folders stay
	front     *balancer
	providers map[string]*soakProvider
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

// TestUpgrade_Journal: a gateway without a store is killed under load, and started again as the other release in the same
// folder, again and again. The provider, which counts strictly, refuses nothing, because each knows what the other let in.
func TestUpgrade_Journal(t *testing.T) {
	if os.Getenv(previousRelease) == "" {
		t.Skip("needs the release before: make test-upgrade")
	}
	t.Parallel()
	dir := t.TempDir()
	provider := startMock(t, "--rpm=8", "--output-tokens=480")
	config := restartConfig(t, dir, provider+"/v1", "rpm: 8", true)
	var served, refused atomic.Int64
	for n := range 10 {
		program := []string{os.Getenv(previousRelease), "llmgov"}[n%2]
		p, err := launchProgram(program, dir, []string{"PATH=" + os.Getenv("PATH")}, "serve", "-c", config, "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.kill)
		if err := p.listening(); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		go func() { <-ctx.Done(); p.kill() }()
		flood(ctx, n, p.data, &served, &refused)
		cancel()
		<-p.done
	}
	st := statsOf(t, provider)
	t.Logf("the provider admitted %d and refused %d; gateways refused %d", st.Admitted, st.Refused, refused.Load())
	if st.Refused != 0 || st.Admitted < 4 || refused.Load() == 0 {
		t.Errorf("the provider refused %d of %d", st.Refused, st.Admitted)
	}
}

func newUpgrade(t *testing.T, store string) *upgrade {
	t.Helper()
	dir := t.TempDir()
	u := &upgrade{t: t, store: store, config: filepath.Join(dir, "llmgov.yaml"), providers: map[string]*soakProvider{}}
	var upstreams, pools, policy strings.Builder
	for _, p := range upgradePools {
		u.providers[p.name] = newSoakProvider(t, p.mock)
		fmt.Fprintf(&upstreams, "  %s: {base_url: %s}\n", p.name, u.providers[p.name].url())
		fmt.Fprintf(&pools, "  %s: {models: [%s], upstream: %s, expect_nodes: 3, %s}\n", p.name, p.name, p.name, p.rules)
		fmt.Fprintf(&policy, "  %s: {keys: [%q], %s}\n", p.name, tenants.HashKey("key-of-"+p.name).String(), p.policy)
	}
	config := "upstreams:\n" + upstreams.String() + "pools:\n" + pools.String() +
		"policies: [tenants.yaml]\ntimeouts: {drain: 12s}\nstate_dir: state\ndecision_log: {path: decisions.jsonl}\n"
	for file, text := range map[string]string{u.config: config, filepath.Join(dir, "tenants.yaml"): "tenants:\n" + policy.String()} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 3 {
		g := &gatewayInTumult{i: i}
		u.gateways = append(u.gateways, g)
		u.start(g, os.Getenv(previousRelease), t.TempDir())
	}
	u.front = newBalancer(t, u.gateways)
	return u
}

// start starts a gateway of a release in a folder.
func (u *upgrade) start(g *gatewayInTumult, program, dir string) {
	u.t.Helper()
	p, err := launchProgram(program, dir, []string{"PATH=" + os.Getenv("PATH")}, "serve", "-c", u.config,
		"--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--node", fmt.Sprint("n", g.i), "--store", u.store)
	if err != nil {
		u.t.Fatal(err)
	}
	u.t.Cleanup(p.kill)
	if err := p.listening(); err != nil {
		u.t.Fatal(err)
	}
	g.proc.Store(p)
}

// roll replaces all gateways, one after the other, and when they have switched to the newest format, back.
func (u *upgrade) roll() {
	stop := u.flood()
	before := max(1, u.format(u.gateways[0]))
	u.replaceAll("llmgov", func(last int) { u.await(u.gateways[:last], before) })
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
			u.t.Errorf("while %s took the place of gateway %d, %d calls were served", release, i, served)
		}
	}
}

// format is the format that a gateway shows.
func (u *upgrade) format(g *gatewayInTumult) int {
	var v struct {
		Pools []struct{ Sharing *adminapi.Sharing }
	}
	if err := askAdmin(http.MethodGet, g.proc.Load().admin+"/api/v1/snapshot", "", &v); err != nil {
		u.t.Error(err)
		return 0
	}
	return v.Pools[0].Sharing.Format
}

// await waits until gateways show a format. They take a minute to forget a gateway, and another to be sure.
func (u *upgrade) await(gateways []*gatewayInTumult, want int) {
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
func (u *upgrade) replace(g *gatewayInTumult, release string) {
	u.end(g)
	u.start(g, release, g.proc.Load().cmd.Dir)
}

// strange are lines of logs that no release may write because of another one.
var strange = regexp.MustCompile(`(?m)^.*("level":"ERROR"|another release|damaged|not understood|panic).*$`)

func (u *upgrade) end(g *gatewayInTumult) {
	u.t.Helper()
	p := g.proc.Load()
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	if code, err := p.exit(); code != 0 || err != nil {
		u.t.Errorf("gateway %d ended with %d, %v", g.i, code, err)
	}
	for _, line := range strange.FindAllString(read(p.stderr), 3) {
		u.t.Errorf("gateway %d, %s: %.500s", g.i, p.cmd.Path, line)
	}
}

// useNewKey makes a key at a gateway of each release that there is now.
func (u *upgrade) useNewKey() {
	for _, g := range []*gatewayInTumult{u.gateways[0], u.gateways[2]} {
		var made aKey
		if err := askAdmin(http.MethodPost, g.proc.Load().admin+"/api/v1/keys", `{"tenant":"tokens"}`, &made); err != nil {
			u.t.Errorf("a key: %v", err)
		}
		u.keys = append(u.keys, made.Key)
	}
}

// useKeys uses all keys at all gateways.
func (u *upgrade) useKeys() {
	for _, g := range u.gateways {
		for _, key := range u.keys {
			if err := poll(func() error {
				if status := chatStatus(u.t, g.proc.Load(), key); status == http.StatusUnauthorized {
					return fmt.Errorf("gateway %d does not know a key", g.i)
				}
				return nil
			}); err != nil {
				u.t.Error(err)
			}
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
		c.read(u.t, g.proc.Load().cmd.Dir)
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
