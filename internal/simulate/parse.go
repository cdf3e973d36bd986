package simulate

import (
	"bytes"
	"errors"
	"io"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/llmgov/llmgov/escrow"
)

const (
	day = 24 * time.Hour
	// longest bounds a run, so that virtual time fits its types many times over.
	longest = 7 * day
)

// Defaults are the values of keys that a file leaves out.
func defaults(file string) Scenario {
	return Scenario{
		Name:     strings.TrimSuffix(filepath.Base(file), filepath.Ext(file)),
		Duration: 10 * time.Minute,
		Warmup:   time.Minute,
		Seeds:    []uint64{1, 2, 3, 4, 5},
		Pool:     Pool{TPM: 600_000, Burst: 10 * time.Second, MaxQueue: 10_000, TicketWait: 10 * time.Second},
		Patience: 15 * time.Second,
	}
}

func defaultCost() Dist { return Dist{Mean: 1000, Sigma: 0.8, Min: 1, Max: 8000} }

// Parse reads a scenario. file is its name for messages. The error is of type
// Problems, all of them, unless it is nil.
func Parse(file string, data []byte) (Scenario, error) {
	r := &report{file: file}
	s := defaults(file)
	s.Source = data
	if root, ok := decode(r, data); ok {
		p := parser{s: &s, work: Work{Cost: defaultCost()}}
		p.scenario(value{r, root, ""})
	}
	if len(r.problems) > 0 {
		return Scenario{}, r.problems.sorted()
	}
	return s, nil
}

var yamlLine = regexp.MustCompile(`line (\d+): `)

// decode reads the one document of a file.
func decode(r *report, data []byte) (*yaml.Node, bool) {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc yaml.Node
	if err := dec.Decode(&doc); err != nil {
		at := &yaml.Node{}
		what := strings.TrimPrefix(err.Error(), "yaml: ")
		if m := yamlLine.FindStringSubmatch(what); m != nil {
			at.Line, _ = strconv.Atoi(m[1])
			at.Column = 1
			what = strings.Replace(what, m[0], "", 1)
		}
		if errors.Is(err, io.EOF) {
			what = "is empty; write at least tenants:"
		} else {
			what = "is not YAML: " + what + "; mind indentation, quotes and colons"
		}
		r.add(at, "%s", what)
		return nil, false
	}
	var more yaml.Node
	if err := dec.Decode(&more); !errors.Is(err, io.EOF) {
		r.add(&yaml.Node{Line: max(more.Line, 1), Column: 1}, "holds more than one document; write one scenario a file")
		return nil, false
	}
	return doc.Content[0], true
}

// parser reads a scenario's keys. What later keys stand on is read first: the
// work of tenants that have none of their own, and their names for events.
type parser struct {
	s      *Scenario
	work   Work
	leaves map[string]bool // by path; false for a tenant with teams
}

func (p *parser) scenario(v value) {
	var tenants, events value
	s := p.s
	readers := map[string]func(value){
		"name":      func(v value) { v.name(&s.Name) },
		"about":     func(v value) { s.About, _ = v.scalar() },
		"duration":  func(v value) { v.duration(&s.Duration, time.Second, longest) },
		"warmup":    func(v value) { v.duration(&s.Warmup, 0, longest) },
		"seeds":     func(v value) { v.seeds(&s.Seeds) },
		"pool":      p.pool,
		"estimates": func(v value) { oneOf(v, &s.Estimates, estimateWords) },
		"refuse":    func(v value) { oneOf(v, &s.Refuse, refuseWords) },
		"patience":  func(v value) { v.duration(&s.Patience, time.Millisecond, day) },
		"nodes":     notYet("several nodes are"),
		"tenants":   func(v value) { tenants = v },
		"events":    func(v value) { events = v },
	}
	workReaders(readers, &p.work)
	there := v.fields(readers)
	if v.node.Kind != yaml.MappingNode {
		return
	}
	workContradictions(there, &p.work)
	if s.Warmup >= s.Duration {
		at, ok := there["warmup"]
		if !ok {
			at = there["duration"]
		}
		at.problem("a warm-up of %v leaves nothing of a duration of %v; make the run longer or the warm-up shorter", s.Warmup, s.Duration)
	}
	if tenants.node == nil {
		v.r.add(v.node, "tenants: is missing; write at least one tenant with a load")
		return
	}
	p.leaves = map[string]bool{}
	s.Tenants = p.tenants(tenants, "")
	if events.node != nil {
		events.each(p.event)
	}
}

func notYet(what string) func(value) {
	return func(v value) { v.problem("%s not supported yet; remove the key", what) }
}

var (
	estimateWords   = map[string]Estimates{"exact": Exact, "learned": Learned}
	refuseWords     = map[string]Refuse{"wait": Wait, "deny": Deny, "deny_hinted": DenyHinted}
	accountingWords = map[string]escrow.Accounting{"admit_max": escrow.AdmitMax, "production": escrow.Production, "settle": escrow.Settled}
)

func (p *parser) pool(v value) {
	pool := &p.s.Pool
	there := v.fields(map[string]func(value){
		"tpm":                 func(v value) { v.whole(&pool.TPM, 0, escrow.MaxLimit) },
		"rpm":                 func(v value) { v.whole(&pool.RPM, 0, escrow.MaxLimit) },
		"concurrency":         func(v value) { v.whole(&pool.Concurrency, 0, 1_000_000) },
		"interactive_reserve": func(v value) { v.whole(&pool.InteractiveReserve, 0, 1_000_000) },
		"burst":               func(v value) { v.duration(&pool.Burst, 0, escrow.Window) },
		"accounting":          func(v value) { oneOf(v, &pool.Accounting, accountingWords) },
		"headroom":            func(v value) { v.number(&pool.Headroom, 0, 0.5) },
		"max_queue": func(v value) {
			n := int64(pool.MaxQueue)
			v.whole(&n, 0, 10_000_000)
			pool.MaxQueue = int(n)
		},
		"ticket_wait": func(v value) { v.duration(&pool.TicketWait, 0, time.Hour) },
	})
	if pool.TPM == 0 && pool.RPM == 0 && pool.Concurrency == 0 {
		v.problem("has no limit; set tpm, rpm or concurrency above 0")
	}
	if r, ok := there["interactive_reserve"]; ok && pool.InteractiveReserve > 0 && pool.InteractiveReserve >= pool.Concurrency {
		r.problem("%d leaves background calls none of %d slots; write less than concurrency", pool.InteractiveReserve, pool.Concurrency)
	}
}

var nameForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

func (v value) name(into *string) {
	text, ok := v.scalar()
	if !ok {
		return
	}
	if !nameForm.MatchString(text) {
		v.problem("%s is no name; write letters, digits, '.', '_' and '-', beginning with a letter or digit", show(text))
		return
	}
	*into = text
}

func (v value) seeds(into *[]uint64) {
	var list []uint64
	seen := map[int64]bool{}
	v.each(func(v value) {
		n := int64(-1)
		v.whole(&n, 0, 1<<62)
		if n >= 0 && seen[n] {
			v.problem("%d is there twice; the run would be the same", n)
		}
		seen[n] = true
		list = append(list, uint64(max(n, 0)))
	})
	if v.node.Kind == yaml.SequenceNode && len(list) == 0 {
		v.problem("is an empty list; write at least one seed")
	}
	if len(list) > 0 {
		*into = list
	}
}
