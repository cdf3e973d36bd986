package tenants

import (
	"cmp"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/llmgov/llmgov/tenants/internal/glob"
)

// FuzzLoad feeds the loader any two files: it answers problems that are placed and sorted, or a snapshot that keeps
// what snapshots promise, and the same again the next time. What it takes, the schema takes.
func FuzzLoad(f *testing.F) {
	f.Add(goodConfig, goodPolicy, "")
	f.Add(goodConfig, "tenants:\n  a: {keys: []}\n", "")
	f.Add(strings.Replace(fullConfig, "/common/base.yaml", "tenants/*.yaml", 1), fullPolicy, "TPM=5")
	schemas := compiled(f)
	seeds, _ := filepath.Glob("testdata/*/*.txt")
	for _, file := range seeds {
		_, sections := split(f, file)
		f.Add(cmp.Or(sections["llmgov.yaml"], goodConfig), cmp.Or(sections["tenants/a.yaml"], goodPolicy), sections["env"])
	}
	f.Fuzz(func(t *testing.T, config, policy, env string) {
		sections := map[string]string{"llmgov.yaml": config, "tenants/a.yaml": policy, "env": env}
		s, err := loadSections(sections)
		again, errAgain := loadSections(sections)
		if err != nil {
			checkProblems(t, s, err)
			if errAgain == nil || err.Error() != errAgain.Error() {
				t.Fatalf("first %v, then %v", err, errAgain)
			}
			return
		}
		if errAgain != nil || !s.Equal(again) || s.Hash() != again.Hash() {
			t.Fatalf("loads differ: %v", errAgain)
		}
		checkSnapshot(t, s)
		if said, _ := refusals(t, schemas, sections); len(said) > 0 {
			t.Errorf("the loader takes what the schema refuses: %s", said)
		}
	})
}

func checkProblems(t *testing.T, s *Snapshot, err error) {
	problems, ok := errors.AsType[Problems](err)
	if !ok || s != nil || len(problems) == 0 {
		t.Fatalf("got snapshot %v and error %v; want problems alone", s, err)
	}
	sorted := slices.IsSortedFunc(problems, func(a, b Problem) int {
		return cmp.Or(strings.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col))
	})
	if !sorted {
		t.Errorf("not sorted:\n%v", problems)
	}
	for _, p := range problems {
		inFile := strings.HasSuffix(p.File, ".yaml")
		if p.File == "" || p.What == "" || inFile && (p.Line < 1 || p.Col < 1) {
			t.Errorf("problem without a place: %+v", p)
		}
	}
}

func checkBudgets(t *testing.T, of string, list []Budget) {
	seen := map[Budget]bool{}
	for _, b := range list {
		if b.Limit < 1 || !slices.Contains(units.list, b.Unit) || !slices.Contains(periods.list, b.Per) {
			t.Errorf("%s has budget %+v", of, b)
		}
		b.Limit = 0
		if seen[b] {
			t.Errorf("%s has two budgets of %s per %s", of, b.Unit, b.Per)
		}
		seen[b] = true
	}
}

func checkFloors(t *testing.T, s *Snapshot, p *Pool) {
	var owed func(parent int) int64 // to those right below it
	owed = func(parent int) (sum int64) {
		for i := range s.Tenants() {
			tn := &s.Tenants()[i]
			if tn.Parent != parent || !s.Reaches(tn, p) {
				continue
			}
			teams := owed(i)
			if tn.FloorTPM > 0 && teams > tn.FloorTPM {
				t.Errorf("floors of %d below %s, whose own is %d", teams, tn.Name, tn.FloorTPM)
			}
			sum += cmp.Or(tn.FloorTPM, teams)
		}
		return sum
	}
	if sum := owed(-1); p.TPM > 0 && (sum > p.TPM || sum != s.Floors(p)) {
		t.Errorf("floors of %d, said to be %d, in pool %+v", sum, s.Floors(p), p)
	}
	sum := 0.0
	for _, sh := range s.Shares(p) {
		sum += sh.Part
		if sh.Part > sh.Whole || len(sh.Tenant.Keys) == 0 && (sh.Part > 0 || !sh.Teams) {
			t.Errorf("share %+v", sh)
		}
	}
	if sum > 1+1e-6 {
		t.Errorf("pool %s is shared out %v times", p.Name, sum)
	}
}

// checkTeam holds a team to what its parent may.
func checkTeam(t *testing.T, s *Snapshot, tn *Tenant) {
	if tn.Parent < 0 {
		if strings.Contains(tn.Name, "/") || tn.Bounds != nil {
			t.Errorf("tenant %+v", tn)
		}
		return
	}
	parent := &s.Tenants()[tn.Parent]
	switch {
	case tn.Parent >= tn.Index, !strings.HasPrefix(tn.Name, parent.Name+"/"), tn.Group != "", tn.Tier != parent.Tier,
		!parent.Routes.Has(tn.Routes), parent.Shadow && !tn.Shadow, parent.Background && !tn.Background,
		parent.MaxOutputTokens > 0 && (tn.MaxOutputTokens == 0 || tn.MaxOutputTokens > parent.MaxOutputTokens):
		t.Errorf("team %+v of %+v", tn, parent)
	}
	for _, m := range s.ModelsFor(tn) {
		if !parent.MayUse(m.Name) {
			t.Errorf("%s may use %s and its parent may not", tn.Name, m.Name)
		}
	}
	for i := range s.Pools() {
		if p := &s.Pools()[i]; s.Reaches(tn, p) && !s.Reaches(parent, p) {
			t.Errorf("%s reaches %s and its parent does not", tn.Name, p.Name)
		}
	}
}

func checkSnapshot(t *testing.T, s *Snapshot) {
	if name := s.Location().String(); name != s.Config().Timezone {
		t.Errorf("location %s in time zone %s", name, s.Config().Timezone)
	}
	for i, p := range s.Pools() {
		if p.Index != i || p.TPM < 0 || p.RPM < 0 || p.Concurrency < 0 || len(p.Upstreams) == 0 || p.HeadroomPPM > maxHeadroomPPM {
			t.Errorf("pool %+v", p)
		}
		if p.InteractiveReserve < 0 || p.InteractiveReserve > 0 && p.InteractiveReserve >= p.Concurrency || p.TicketWait < 0 {
			t.Errorf("pool %+v", p)
		}
		checkBudgets(t, p.Name, p.Budgets)
		checkFloors(t, s, &p)
		for _, m := range p.Models {
			if got, ok := s.PoolOf(m); !glob.Is(m) && (!ok || got.Name != p.Name) {
				t.Errorf("PoolOf(%q) = %v, want %s", m, got, p.Name)
			}
		}
	}
	for i, tn := range s.Tenants() {
		checkTeam(t, s, &tn)
		got, ok := s.TenantByName(tn.Name)
		if tn.Index != i || !ok || got.Index != i || len(tn.Models) == 0 || tn.Weight < 0.001 || tn.Source == "" {
			t.Errorf("tenant %+v", tn)
		}
		if (tn.Group == "") != (tn.GroupWeight == 0) || tn.Group != "" && tn.Group != tn.Tier || tn.GroupWeight < 0 {
			t.Errorf("group of tenant %+v", tn)
		}
		checkBudgets(t, tn.Name, tn.Budgets)
		for _, m := range s.ModelsFor(got) {
			if s.Price(m.Name) == nil && countsUSD(tn.Budgets) >= 0 {
				t.Errorf("%s has a budget in usd and may use %s, which has no price", tn.Name, m.Name)
			}
			if p, ok := s.PoolOf(m.Name); !ok || p.Name != m.Pool || !tn.MayUse(m.Name) {
				t.Errorf("%s lists %v", tn.Name, m)
			}
		}
	}
}
