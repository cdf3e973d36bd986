package tenants

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/llmgov/llmgov/governor/terms"
	"github.com/llmgov/llmgov/internal/lib/strictyaml"
)

// Range says that a pool's limit moves: from what it is configured as, which it is never below, to Max. The zero value stays.
type Range struct {
	Max int64
	// Adaptive is AdaptiveThrottles, or left empty if the limit is what upstreams declare (HeedFollow).
	Adaptive string
}

// AdaptiveThrottles has a limit rise while the upstreams refuse nothing, and fall when they do.
const AdaptiveThrottles = "throttles"

var rangeLaws = words[string]{"a way to find a limit", []string{AdaptiveThrottles}}

// rangeShape is the mapping that says of one of a pool's limits how it moves.
func rangeShape(k terms.Axis) shape[Pool] {
	return shape[Pool]{
		Fields: []field[Pool]{
			strictyaml.AmountField("min", "Where the limit begins, and what it is never below.", 1, maxAmount, func(p *Pool) *int64 { return p.Amount(k) }),
			strictyaml.AmountField("max", "What it is never above.", 1, maxAmount, func(p *Pool) *int64 { return &p.Ranges[k].Max }),
			{
				Name: "adaptive", About: "How it is found: by what the upstreams refuse. Left out, it is what they declare, if all of them have heed: follow.",
				Kind: rangeLaws.kind(), Read: func(v value, p *Pool) { p.Ranges[k].Adaptive = rangeLaws.read(v, "") },
			},
		},
		Also: schema{"required": []any{"min", "max"}},
	}
}

// rangeFields are the short keys of a pool's limits of a minute: numbers, or mappings that say how they move.
func rangeFields(about string) []field[Pool] {
	fields := capacityFields[Pool](about, timed)
	for i, k := range timed {
		f := &fields[i]
		number := f.Kind
		plain := f.Read
		moves := rangeShape(k)
		f.Kind = func() schema {
			s := number()
			s["anyOf"] = append(s["anyOf"].([]any), moves.Schema(nil))
			return s
		}
		f.Read = func(v value, p *Pool) {
			if !v.IsMapping() {
				plain(v, p)
				return
			}
			*p.Amount(k) = 1 // if it is refused
			list, _ := v.Pairs()
			if known := moves.ReadPairs(list, p); known && (!strictyaml.Has(list, "min") || !strictyaml.Has(list, "max")) {
				v.Problem("lacks min or max; write both, such as {min: 1000000, max: 5000000, adaptive: throttles}")
			}
			if refusedAny(v, "min", "max", "adaptive") || v.Report.Refused[v.Path] {
				p.Ranges[k] = Range{}
			}
		}
	}
	return fields
}

// ranges checks that limits that are to move can.
func (c *compiler) ranges(p *Pool, path string) {
	for k, r := range p.Ranges {
		at := strictyaml.Child(path, terms.Axis(k).Key())
		switch limit := *p.Amount(terms.Axis(k)); {
		case r == (Range{}):
		case r.Max <= limit:
			top := strictyaml.Child(at, "max")
			c.r.At(top, "%s is not above min; write more than %d, or one number in place of both", c.r.ShownNumber(top, r.Max), limit)
		case p.UpstreamsLimited():
			c.r.At(at, "moves, which does not go together with limits of upstreams yet; write one number, or remove those limits")
		case r.Adaptive == "" && slices.ContainsFunc(p.Upstreams, func(u PoolUpstream) bool { return !c.follows(u.Name) }):
			c.r.At(at, "has nothing to move it; write adaptive: throttles in it, or heed: follow at all upstreams of the pool")
		}
	}
}

// follows reports whether an upstream may raise limits by what it declares, if it is there.
func (c *compiler) follows(upstream string) bool {
	at := slices.IndexFunc(c.cfg.Upstreams, func(u Upstream) bool { return u.Name == upstream })
	return at < 0 || c.cfg.Upstreams[at].Heed == HeedFollow
}

// idleFollows describes the upstreams that may raise limits none of which moves by what they declare.
func (c *compiler) idleFollows() (list []string) {
	moves := map[string]bool{}
	for _, p := range c.cfg.Pools {
		declared := slices.ContainsFunc(p.Ranges[:], func(r Range) bool { return r.Max > 0 && r.Adaptive == "" })
		for _, u := range p.Upstreams {
			moves[u.Name] = moves[u.Name] || declared
		}
	}
	for _, u := range c.cfg.Upstreams {
		if u.Heed == HeedFollow && !moves[u.Name] {
			idle := c.r.Describe(strictyaml.Child(strictyaml.Child("upstreams", u.Name), "heed"),
				"follow acts as lower, because no pool of the upstream has a limit that what is declared may raise; write one such as tpm: {min: 300000, max: 2000000}")
			list = append(list, idle.String())
		}
	}
	return list
}

// The bounds of ramps.
const leastRamp, mostRamp = 1.1, 100

var rampField = field[Pool]{
	Name: "ramp", About: "By how many times use may grow in a minute, such as 2x/min, from a tenth of the limit after quiet. Left out, by any.",
	Kind: strictyaml.StringKind(`^[0-9]+([.][0-9]+)?x/min$`), Read: readRamp,
	Check: func(p *Pool) string {
		if p.Ramp != 0 && !(p.Ramp >= leastRamp && p.Ramp <= mostRamp) {
			return fmt.Sprintf("%v is out of range; use %v to %v", p.Ramp, leastRamp, mostRamp)
		}
		return ""
	},
}

// readRamp reads a text such as 2x/min.
func readRamp(v value, p *Pool) {
	text, ok := v.Scalar()
	if !ok {
		return
	}
	number, is := strings.CutSuffix(text, "x/min")
	n, err := strconv.ParseFloat(number, 64)
	switch {
	case !is || err != nil || strings.Trim(number, "0123456789.") != "":
		v.Problem("%s is not how many times use may grow in a minute; write one such as 2x/min", v.Say(text))
	case n < leastRamp || n > mostRamp:
		v.Problem("%s is out of range; write one from %vx/min to %vx/min", v.Say(text), leastRamp, mostRamp)
	default:
		p.Ramp = n
	}
}

// spellRamp is how a file says it.
func spellRamp(ramp float64) string { return strconv.FormatFloat(ramp, 'f', -1, 64) + "x/min" }
