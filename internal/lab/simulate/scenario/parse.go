package scenario

import (
	"math"
	"path/filepath"
	"strings"
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/escrow/adaptive"
	"github.com/llmgov/llmgov/governor/terms"
	"github.com/llmgov/llmgov/internal/lib/strictyaml"
)

const (
	day = 24 * time.Hour
	// longest bounds a run, so that virtual time fits its types many times over.
	longest = 7 * day
	// mostSlots bounds calls at once.
	mostSlots = 1_000_000
)

// defaults are the values of keys that a file leaves out.
func defaults(file string) Scenario {
	return Scenario{
		Name:     strings.TrimSuffix(filepath.Base(file), filepath.Ext(file)),
		Duration: 10 * time.Minute,
		Warmup:   time.Minute,
		Seeds:    []uint64{1, 2, 3, 4, 5},
		Pool:     Pool{Pool: terms.Pool{TPM: 600_000, Burst: 10 * time.Second, MaxQueue: 10_000, TicketWait: 10 * time.Second}},
		Patience: 15 * time.Second,
	}
}

func defaultCost() Dist { return Dist{Mean: 1000, Sigma: 0.8, Min: 1, Max: 8000} }

// Parse reads a scenario. file is its name for messages. The error is of type
// strictyaml.Problems, all of them, unless it is nil.
func Parse(file string, data []byte) (Scenario, error) {
	s := defaults(file)
	s.Source = data
	err := strictyaml.Read(strictyaml.File{Name: file, Data: data, Least: "tenants:"}, func(top value) {
		p := parser{
			s: &s, work: Work{Cost: defaultCost()}, file: file, report: top.Report,
			recorded: &recordings{files: map[source]*recording{}},
		}
		p.scenario(top)
	})
	if err != nil {
		return Scenario{}, err
	}
	return s, nil
}

// value is one of a scenario file.
type value = strictyaml.Value

// parser reads a scenario's keys. Those that others depend on are read first: the
// work of tenants that have none of their own, and their names for events.
type parser struct {
	s      *Scenario
	work   Work
	where  Spread
	may    escrow.Mask
	leaves map[string]bool // by path; false for a tenant with teams
	index  map[string]int  // of nodes, by name
	// upstream is the index of upstreams, by name.
	upstream map[string]int
	// file is that of the scenario, and recorded are those that it names.
	file     string
	report   *strictyaml.Report
	recorded *recordings
}

func (p *parser) scenario(v value) {
	var tenants, events value
	s := p.s
	readers := map[string]func(value){
		"name":      func(v value) { v.Name(&s.Name) },
		"about":     func(v value) { s.About, _ = v.Scalar() },
		"duration":  func(v value) { v.Duration(&s.Duration, time.Second, longest) },
		"warmup":    func(v value) { v.Duration(&s.Warmup, 0, longest) },
		"seeds":     func(v value) { seeds(v, &s.Seeds) },
		"pool":      p.pool,
		"estimates": func(v value) { strictyaml.OneOf(v, &s.Estimates, estimateWords) },
		"refuse":    func(v value) { strictyaml.OneOf(v, &s.Refuse, refuseWords) },
		"patience":  func(v value) { v.Duration(&s.Patience, time.Millisecond, day) },
		"nodes":     p.nodes,
		"tenants":   func(v value) { tenants = v },
		"events":    func(v value) { events = v },
	}
	workReaders(readers, &p.work)
	there := v.Fields(readers)
	if !v.IsMapping() {
		return
	}
	workContradictions(there, &p.work)
	if !tenants.There() {
		v.Problem("tenants: is missing; write at least one tenant with a load")
		return
	}
	switch at, ok := there["nodes"]; {
	case ok && len(s.Pool.Upstreams) > 0:
		at.Problem("are not simulated with upstreams that have limits; remove one of them")
	case ok && s.Pool.ITPM+s.Pool.OTPM > 0:
		at.Problem("are not simulated with itpm and otpm; remove one of them")
	}
	p.leaves = map[string]bool{}
	s.Tenants = p.tenants(tenants, "")
	end := p.recorded.arrange()
	if _, ok := there["duration"]; !ok && end > 0 {
		s.Duration = min(end.Truncate(time.Second)+time.Second, longest)
	}
	p.recorded.idle(p.report, s.Duration)
	if s.Warmup >= s.Duration {
		at := v
		for _, key := range []string{"duration", "warmup"} {
			if written, ok := there[key]; ok {
				at = written
			}
		}
		at.Problem("a warm-up of %v leaves nothing of a duration of %v; make the run longer or the warm-up shorter", s.Warmup, s.Duration)
	}
	if events.There() {
		events.Each(p.event)
	}
}

var (
	estimateWords   = map[string]Estimates{"exact": Exact, "learned": Learned}
	refuseWords     = map[string]Refuse{"wait": Wait, "deny": Deny, "deny_hinted": DenyHinted, "sdk": SDK}
	lawWords        = map[string]adaptive.Law{"gradient": adaptive.Gradient, "aimd": adaptive.AIMD}
	accountingWords = map[string]escrow.Accounting{"admit_max": escrow.AdmitMax, "production": escrow.Production, "settle": escrow.Settled}
)

func (p *parser) pool(v value) {
	pool := &p.s.Pool
	readers := map[string]func(value){
		"adaptive":            func(v value) { strictyaml.OneOf(v, &pool.Adaptive, lawWords) },
		"min_concurrency":     func(v value) { v.Whole(&pool.MinConcurrency, 1, mostSlots) },
		"knee":                func(v value) { v.Whole(&pool.Knee, 0, mostSlots) },
		"interactive_reserve": func(v value) { v.Whole(&pool.InteractiveReserve, 0, mostSlots) },
		"soft_cap":            func(v value) { millionths(v, &pool.SoftCapPPM, 0.999999) },
		"hold_back":           func(v value) { millionths(v, &pool.HoldBackPPM, 0.999999) },
		"cache":               func(v value) { v.Whole(&pool.Cache, 0, escrow.MaxLimit) },
		"affinity":            func(v value) { strictyaml.OneOf(v, &pool.Spreads, map[string]bool{"session": false, "none": true}) },
		"upstreams":           p.upstreams,
		"burst":               func(v value) { v.Duration(&pool.Burst, 0, escrow.Window) },
		"accounting":          func(v value) { strictyaml.OneOf(v, &pool.Accounting, accountingWords) },
		"headroom":            func(v value) { millionths(v, &pool.HeadroomPPM, 0.5) },
		"max_queue": func(v value) {
			n := int64(pool.MaxQueue)
			v.Whole(&n, 0, 10_000_000)
			pool.MaxQueue = int(n)
		},
		"ticket_wait": func(v value) { v.Duration(&pool.TicketWait, 0, time.Hour) },
	}
	limitReaders(readers, pool)
	there := v.Fields(readers)
	if _, written := there["tpm"]; !written && pool.ITPM+pool.OTPM > 0 {
		pool.TPM = 0
	}
	p.sumUpstreams(there)
	if !terms.Any(pool) {
		v.Problem("has no limit; set tpm, rpm, itpm, otpm or concurrency above 0")
	}
	if r, ok := there["interactive_reserve"]; ok && pool.InteractiveReserve > 0 && pool.InteractiveReserve >= pool.Concurrency {
		r.Problem("%d leaves background calls none of %d slots; write less than concurrency", pool.InteractiveReserve, pool.Concurrency)
	}
	if at, ok := there["hold_back"]; ok && pool.HoldBackPPM > 0 && pool.Concurrency <= 1 {
		at.Problem("does nothing with %d slots; write a concurrency of 2 or more, or remove it", pool.Concurrency)
	}
	p.adaptive(there)
}

// millionths reads a part, up to most.
func millionths(v value, into *int64, most float64) {
	part := 0.0
	v.Number(&part, 0, most)
	*into = int64(math.Round(part * 1e6))
}

// adaptive completes a limit that moves, and reports contradictions.
func (p *parser) adaptive(there map[string]value) {
	pool := &p.s.Pool
	least, minimum := there["min_concurrency"]
	switch at, moves := there["adaptive"]; {
	case moves && pool.Concurrency == 0:
		at.Problem("has no bound; write concurrency, which is the most that the limit may be")
	case moves && pool.InteractiveReserve > 0:
		at.Problem("is not simulated with a reserve; remove interactive_reserve")
	case moves && pool.SoftCapPPM > 0:
		at.Problem("does not go together with a soft cap; remove soft_cap")
	case moves && pool.HoldBackPPM > 0:
		at.Problem("does not go together with a hold-back; remove hold_back")
	case moves && !minimum:
		pool.MinConcurrency = min(4, pool.Concurrency)
	case minimum && !moves:
		least.Problem("is of an adaptive limit only; write adaptive: gradient beside it, or remove it")
	case minimum && pool.MinConcurrency > pool.Concurrency:
		least.Problem("%d is more than the concurrency of %d; write less", pool.MinConcurrency, pool.Concurrency)
	}
	if at, ok := there["knee"]; ok && pool.Knee > 0 && pool.Concurrency == 0 {
		at.Problem("is of a pool with slots; write concurrency beside it, or remove it")
	}
}

func seeds(v value, into *[]uint64) {
	var list []uint64
	seen := map[int64]bool{}
	v.Each(func(v value) {
		n := int64(-1)
		v.Whole(&n, 0, 1<<62)
		if n >= 0 && seen[n] {
			v.Problem("%d is there twice; the run would be the same", n)
		}
		seen[n] = true
		list = append(list, uint64(max(n, 0)))
	})
	if v.IsList() && len(list) == 0 {
		v.Problem("is an empty list; write at least one seed")
	}
	if len(list) > 0 {
		*into = list
	}
}
