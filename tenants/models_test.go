package tenants

import (
	"errors"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/llmgov/llmgov/tenants/internal/glob"
)

var (
	pattern = rapid.StringMatching(`[ab*]{1,6}`).Filter(func(s string) bool { return s == glob.Plain(s) })
	model   = rapid.StringMatching(`[ab]{0,7}`)
)

// dumbMatch is match by way of a regular expression.
func dumbMatch(pattern, name string) bool {
	expr := strings.ReplaceAll(regexp.QuoteMeta(pattern), `\*`, ".*")
	return regexp.MustCompile("^(?s:" + expr + ")$").MatchString(name)
}

// TestPoolOf_Oracle builds random pools. When they are accepted, each model leads to the one pool that the rules name;
// when they are refused for a tie, there is one.
func TestPoolOf_Oracle(t *testing.T) {
	accepted := 0
	rapid.Check(t, func(t *rapid.T) {
		lists := rapid.SliceOfN(rapid.SliceOfNDistinct(pattern, 1, 3, rapid.ID[string]), 1, 4).Draw(t, "pools")
		cfg := configOf(lists...)
		s, err := Build(cfg, []Tenant{{Name: "t", Keys: []Key{{Hash: HashKey("k")}}}})
		if err != nil {
			if _, ok := errors.AsType[Problems](err); !ok || !tied(lists) {
				t.Fatalf("refused without a tie: %v", err)
			}
			return
		}
		accepted++
		if tied(lists) {
			t.Fatalf("a tie was accepted")
		}
		m := model.Draw(t, "model")
		want := dumbPoolOf(lists, m)
		p, ok := s.PoolOf(m)
		if ok != (want >= 0) || ok && p.Name != poolName(want) {
			t.Fatalf("PoolOf(%q) = %v, want pool %d", m, p, want)
		}
	})
	if accepted == 0 {
		t.Error("no random pools were accepted; the test shows nothing")
	}
}

func poolName(i int) string { return string(rune('A' + i)) }

// configOf has one pool for each list of models.
func configOf(lists ...[]string) Config {
	cfg := DefaultConfig()
	cfg.Upstreams = []Upstream{{Name: "u", BaseURL: "http://u/v1"}}
	for i, models := range lists {
		p := DefaultPool(poolName(i), models...)
		p.TPM = 1000
		cfg.Pools = append(cfg.Pools, p)
	}
	return cfg
}

// dumbPoolOf scores every entry of every pool.
func dumbPoolOf(lists [][]string, model string) int {
	best := -1
	pool := -1
	for i, list := range lists {
		for _, p := range list {
			score := len(strings.ReplaceAll(p, "*", ""))
			if !strings.Contains(p, "*") {
				score = 1000
			}
			if dumbMatch(p, model) && score > best {
				best = score
				pool = i
			}
		}
	}
	return pool
}

// tied reports whether two pools list the same entry, or globs of the same length that overlap.
func tied(lists [][]string) bool {
	for i := range lists {
		for _, a := range lists[i] {
			for _, other := range lists[i+1:] {
				for _, b := range other {
					globs := glob.Is(a) && glob.Is(b)
					if a == b || globs && glob.Literals(a) == glob.Literals(b) && glob.Overlap(a, b) {
						return true
					}
				}
			}
		}
	}
	return false
}

// TestUSDBudget_Oracle draws pools, a grant and prices: when a budget in money is accepted, every model that the tenant
// may use has a price; when it is refused, each model that the problem names is one that has none.
func TestUSDBudget_Oracle(t *testing.T) {
	accepted := 0
	patterns := rapid.SliceOfNDistinct(pattern, 1, 3, rapid.ID[string])
	named := regexp.MustCompile(`"([ab*]+)"`)
	check := func(t *rapid.T) {
		cfg := configOf(patterns.Draw(t, "models"))
		grant := patterns.Draw(t, "grant")
		for _, m := range patterns.Draw(t, "prices") {
			cfg.Prices = append(cfg.Prices, ModelPrice{Model: m})
		}
		tn := Tenant{Name: "t", Keys: []Key{{Hash: HashKey("k")}}, Models: grant, Budgets: []Budget{{Unit: MicroUSD, Limit: 1, Per: Day}}}
		s, err := Build(cfg, []Tenant{tn})
		if err != nil {
			if _, refusal, ok := strings.Cut(err.Error(), "without a price: "); ok {
				refusal, _, _ = strings.Cut(refusal, "\n")
				for _, m := range named.FindAllStringSubmatch(refusal, -1) {
					if rs := newPricing(&cfg); rs.covers(m[1]) {
						t.Fatalf("%s is said to have no price: %v", m[1], err)
					}
				}
			}
			return
		}
		accepted++
		m := model.Draw(t, "model")
		if _, ok := s.PoolOf(m); !ok || !s.Tenants()[0].MayUse(m) {
			return
		}
		if s.Price(m) == nil {
			t.Fatalf("%q has no price, and the budget was accepted", m)
		}
	}
	for round := 0; accepted == 0 && round < 50; round++ { // few random prices cover all models
		rapid.Check(t, check)
	}
	if accepted == 0 {
		t.Error("no random prices were accepted; the test shows nothing")
	}
}
