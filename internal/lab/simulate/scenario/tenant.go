package scenario

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/internal/lib/strictyaml"
)

// tenants reads a list of siblings.
func (p *parser) tenants(v value, above string) []Tenant {
	var list []Tenant
	taken := map[string]bool{}
	v.Each(func(v value) {
		for _, t := range p.tenant(v, above) {
			if t.Name != "" && taken[t.Name] {
				v.Problem("there is a tenant %s already; give each its own name", strictyaml.Show(t.Name))
			}
			taken[t.Name] = true
			list = append(list, t)
		}
	})
	if v.IsList() && v.Empty() {
		v.Problem("name no tenant; write at least one with a load")
	}
	return list
}

// tenant reads one entry, which stands for many when it is a zipf.
func (p *parser) tenant(v value, above string) []Tenant {
	t := Tenant{Weight: 1, Work: p.work, Spread: p.where, Via: p.may}
	own := Work{Cost: p.work.Cost}
	var teams, zipf value
	var from *tape
	readers := map[string]func(value){
		"name":      func(v value) { v.Name(&t.Name) },
		"weight":    func(v value) { weight(v, &t.Weight) },
		"priority":  t.priority,
		"floor_tpm": func(v value) { v.Whole(&t.FloorTPM, 0, escrow.MaxLimit) },
		"credit":    func(v value) { v.Duration(&t.Credit, 0, escrow.Window) },
		"load":      func(v value) { from = p.load(v, &t.Load) },
		"upstreams": func(v value) { p.via(v, &t.Via) },
		"nodes":     func(v value) { p.spread(v, &t.Spread) },
		"rotate":    func(v value) { p.rotation(v, &t.Spread) },
		"teams":     func(v value) { teams = v },
		"zipf":      func(v value) { zipf = v },
	}
	workReaders(readers, &own)
	there := v.Fields(readers)
	if !v.IsMapping() {
		return nil
	}
	workContradictions(there, &own)
	p.ownWork(there, &t.Work, own)
	if _, ok := there["name"]; !ok {
		v.Problem("has no name; write name:")
	}
	t.contradictions(v, there)
	p.play(from, above+t.Name, &t.Load)
	path := above + t.Name
	if zipf.There() {
		return p.zipf(zipf, t, above)
	}
	p.leaves[path] = !teams.There()
	if teams.There() {
		inner := *p
		inner.work = t.Work // teams inherit the keys that they leave out
		inner.where = t.Spread
		inner.may = t.Via
		t.Teams = inner.tenants(teams, path+"/")
	}
	return []Tenant{t}
}

// ownWork replaces those parts of the inherited work that a tenant names.
func (p *parser) ownWork(there map[string]value, w *Work, own Work) {
	has := func(key string) bool { _, ok := there[key]; return ok }
	if has("cost") || has("classes") {
		w.Cost = own.Cost
		w.Classes = own.Classes
	}
	if has("service") {
		w.Service = own.Service
		if len(w.Classes) > 0 && !has("classes") {
			there["service"].Problem("stands beside the scenario's classes, which say how long a request runs; remove it")
		}
	}
	if len(w.Classes) > 0 {
		w.Service = Dist{}
	}
}

func (t *Tenant) contradictions(v value, there map[string]value) {
	kinds := 0
	for _, key := range []string{"load", "teams", "zipf"} {
		if _, ok := there[key]; ok {
			kinds++
		}
	}
	if at, ok := there["cost"]; ok && t.Load.Kind == Recorded {
		at.Problem("has no meaning beside a load whose calls come from a file; remove it")
	}
	switch {
	case kinds == 0:
		v.Problem("has neither load nor teams; write load: {kind: open, tokens_per_second: 1000}")
	case kinds > 1:
		v.Problem("has more than one of load, teams and zipf; give loads to the teams")
	}
	if at, ok := there["priority"]; ok {
		if _, inner := there["teams"]; inner {
			at.Problem("has no meaning for a tenant with teams; give it to the teams")
		}
	}
	if at, ok := there["weight"]; ok {
		if _, many := there["zipf"]; many {
			at.Problem("stands beside zipf, which has weights; remove it")
		}
	}
}

// priority reads a word or a number, as a policy has them.
func (t *Tenant) priority(v value) {
	text, ok := v.Scalar()
	if !ok {
		return
	}
	n, err := strconv.Atoi(text)
	switch {
	case err == nil && (n < 0 || n > escrow.LowestBand):
		v.Problem("%d is not a priority; write 0 to %d, interactive or background", n, escrow.LowestBand)
	case err == nil:
		t.Below = escrow.LowestBand - n
	case text != "interactive" && text != "background":
		v.Problem("%s is not a priority; write 0 to %d, interactive or background", v.Say(text), escrow.LowestBand)
	case text == "background":
		t.Background = true
		t.Below = escrow.LowestBand
	}
}

// weight reads a number of up to three decimals.
func weight(v value, into *escrow.Weight) {
	w := float64(*into)
	v.Number(&w, float64(escrow.MinWeight), float64(escrow.MaxWeight))
	*into = escrow.Weight(math.Round(w*1000) / 1000)
}

var loadWords = map[string]LoadKind{"open": Open, "backlogged": Backlogged, "onoff": OnOff, "absent": Absent, "trace": Recorded}

// loadKeys are the keys that each kind of load is made of, beside kind.
var loadKeys = map[LoadKind][]string{
	Absent:     {},
	Open:       {"tokens_per_second", "requests_per_second"},
	Backlogged: {"workers", "turns"},
	OnOff:      {"tokens_per_second", "requests_per_second", "on", "off", "start"},
	Recorded:   {"file", "columns", "speed"},
}

// load reads a load, of which the calls may come from a file.
func (p *parser) load(v value, into *Load) *tape {
	l := Load{Start: -1}
	workers := int64(0)
	from := source{}
	speed := 1.0
	there := v.Fields(map[string]func(value){
		"kind":                func(v value) { strictyaml.OneOf(v, &l.Kind, loadWords) },
		"tokens_per_second":   func(v value) { v.Number(&l.TokensPerSecond, 1e-3, 1e12) },
		"requests_per_second": func(v value) { v.Number(&l.RequestsPerSecond, 1e-6, 1e6) },
		"workers":             func(v value) { v.Whole(&workers, 1, 100_000) },
		"turns":               func(v value) { p.turns(v, &l.Turns) },
		"on":                  func(v value) { v.Duration(&l.On, time.Millisecond, day) },
		"off":                 func(v value) { v.Duration(&l.Off, 0, day) },
		"start":               func(v value) { v.Duration(&l.Start, 0, day) },
		"file":                func(v value) { from.file, _ = v.Scalar() },
		"columns":             from.columns,
		"speed":               func(v value) { v.Number(&speed, 1e-3, 1e3) },
	})
	l.Workers = int(workers)
	*into = l
	if !v.IsMapping() {
		return nil
	}
	kind, ok := there["kind"]
	if !ok {
		v.Problem("has no kind; write kind: open, backlogged, onoff, trace or absent")
		return nil
	}
	allowed := map[string]bool{"kind": true}
	for _, key := range loadKeys[l.Kind] {
		allowed[key] = true
		_, has := there[key]
		if !has && (key == "workers" || key == "on" || key == "off" || key == "file") {
			v.Problem("is %s and has no %s; write it", kind.Raw(), key)
		}
	}
	for key, at := range there {
		if !allowed[key] {
			at.Problem("has no meaning for a load that is %s; remove it", kind.Raw())
		}
	}
	_, tps := there["tokens_per_second"]
	_, rps := there["requests_per_second"]
	if allowed["tokens_per_second"] && tps == rps {
		v.Problem("needs one of tokens_per_second and requests_per_second; write exactly one")
	}
	if l.Kind != Recorded || from.file == "" {
		return nil
	}
	return p.tape(there["file"], from, speed)
}

// zipf makes many tenants of one entry: the k-th asks for k^-exponent of them
// all. Weights are drawn from the list once, the same for every seed, so that
// a tenant's figures can be averaged over seeds.
func (p *parser) zipf(v value, like Tenant, above string) []Tenant {
	count := int64(0)
	exponent := 1.1
	load := 1.0
	var weights []escrow.Weight
	there := v.Fields(map[string]func(value){
		"count":    func(v value) { v.Whole(&count, 1, 10_000) },
		"exponent": func(v value) { v.Number(&exponent, 0, 5) },
		"load":     func(v value) { v.Number(&load, 1e-6, 1000) },
		"weights": func(v value) {
			v.Each(func(v value) {
				w := escrow.Weight(1)
				weight(v, &w)
				weights = append(weights, w)
			})
		},
	})
	if _, ok := there["count"]; !ok {
		v.Problem("has no count; write how many tenants")
	}
	if p.s.Pool.TPM == 0 {
		v.Problem("needs a pool with tpm, of which load is a multiple")
	}
	if len(weights) == 0 {
		weights = []escrow.Weight{1}
	}
	sum := 0.0
	for k := range count {
		sum += math.Pow(float64(k+1), -exponent)
	}
	rng := rand.New(rand.NewPCG(uint64(count), 0x7a697066))
	list := make([]Tenant, count)
	digits := len(fmt.Sprint(count))
	for k := range list {
		t := like
		t.Name = fmt.Sprintf("%s-%0*d", strings.TrimSuffix(like.Name, "-"), digits, k+1)
		t.Weight = weights[rng.IntN(len(weights))]
		rate := load * float64(p.s.Pool.TPM) / escrow.Window.Seconds() * math.Pow(float64(k+1), -exponent) / sum
		t.Load = Load{Kind: Open, TokensPerSecond: rate}
		p.leaves[above+t.Name] = true
		list[k] = t
	}
	return list
}
