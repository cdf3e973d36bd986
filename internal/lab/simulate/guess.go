package simulate

import (
	"fmt"
	"math"
	"time"

	"github.com/llmgov/llmgov/escrow/lengths"
	"github.com/llmgov/llmgov/internal/lab/simulate/scenario"
)

// guesses are a gateway's estimates of how many tokens a call will
// take and how long it will run: the truth under Exact, else learned from the calls
// before have taught.
type guesses struct {
	exact bool
	paths []string // by leaf, as works
	works []*scenario.Work
	// models are names of classes, from class -1 on.
	models []string
	// outputs learns tokens of output, runs learns times of calls without
	// classes, in hundredths of a second.
	outputs, runs *lengths.Book
}

// lesson is a running call's part in learning.
type lesson struct{ output, run lengths.Stream }

const runUnit = 10 * time.Millisecond

func newGuesses(p *plan) guesses {
	g := guesses{exact: p.Estimates == scenario.Exact}
	if g.exact {
		return g
	}
	g.outputs = lengths.New(lengths.Config{})
	g.runs = lengths.New(lengths.Config{})
	for _, l := range p.tree.Leaves {
		g.paths = append(g.paths, l.Path)
		g.works = append(g.works, &l.Work)
		for len(g.models) <= len(l.Work.Classes) {
			g.models = append(g.models, fmt.Sprintf("model-%d", len(g.models)))
		}
	}
	return g
}

// kind tells calls apart.
func (g *guesses) kind(c *call) lengths.Kind {
	return lengths.Kind{Tenant: g.paths[c.leaf], Model: g.models[c.class+1]}
}

// first is the expectation of a call that asks: its tokens and its run.
func (g *guesses) first(c *call) (expect int64, run time.Duration) {
	if g.exact {
		return c.tokens(), c.run
	}
	expect = g.outputs.ExpectOf(g.kind(c), c.maxOutput)
	if c.class >= 0 {
		return c.input + expect, g.firstToken(c) + flow(expect, g.speed(c, 0))
	}
	law := g.works[c.leaf].Service
	if !varies(law) {
		return expect, c.run
	}
	return expect, knownRun(law, g.runs.ExpectOf(g.kind(c), int64(longestRun(law)/runUnit)), 0)
}

// start takes a call into the books as it begins to run.
func (g *guesses) start(c *call) {
	if g.exact {
		return
	}
	c.learn.output = g.outputs.Start(g.kind(c), c.maxOutput)
	if law := g.works[c.leaf].Service; varies(law) {
		c.learn.run = g.runs.Start(g.kind(c), int64(longestRun(law)/runUnit))
	}
}

// again is the expectation of a call that runs.
func (g *guesses) again(c *call, produced int64, age time.Duration) (expect int64, run time.Duration) {
	if g.exact {
		return c.tokens(), c.run
	}
	expect = g.outputs.Reach(&c.learn.output, produced)
	if c.class >= 0 {
		return c.input + expect, age + flow(expect-produced, g.speed(c, age))
	}
	law := g.works[c.leaf].Service
	if !varies(law) {
		return expect, c.run
	}
	return expect, knownRun(law, g.runs.Reach(&c.learn.run, int64(age/runUnit)), age)
}

// varies says that a law of run times is one to be learned.
func varies(d scenario.Dist) bool { return !d.Zero() && !math.IsInf(d.Max, 1) }

// longestRun is the most that a law of run times can give, in whole units.
func longestRun(d scenario.Dist) time.Duration {
	return time.Duration(d.Max * float64(time.Second)).Truncate(runUnit)
}

// knownRun is an expected run of so many units. As long as nothing has been learned
// it is no more than the call's age: a slot is not a limit that a low guess
// could break, and 0 lets the pool take the mean of all calls.
func knownRun(d scenario.Dist, units int64, age time.Duration) time.Duration {
	if expect := time.Duration(units) * runUnit; expect < longestRun(d) {
		return expect
	}
	return age
}

// firstToken is the middle of the range of a call's class.
func (g *guesses) firstToken(c *call) time.Duration {
	s := g.works[c.leaf].Classes[c.class].FirstToken
	return (s.From + s.To) / 2
}

// flow is how long so many tokens take.
func flow(tokens, speed int64) time.Duration {
	if speed <= 0 {
		return 0
	}
	return time.Duration(float64(tokens) / float64(speed) * float64(time.Second))
}

// speed is how fast a call produces, as far as can be seen from outside: its
// own speed once it has flowed for a second, before that the speed of its class.
func (g *guesses) speed(c *call, age time.Duration) int64 {
	known := c.speed
	if !g.exact && c.class >= 0 && age-c.firstToken < time.Second {
		known = g.works[c.leaf].Classes[c.class].TokensPerSecond
	}
	if known == 0 {
		return 0
	}
	return max(1, int64(math.Round(known)))
}

// cut teaches that a call came to some length, and broke off there.
func (g *guesses) cut(c *call, produced int64) {
	if g.exact {
		return
	}
	g.outputs.End(&c.learn.output, produced, false)
	g.runs.End(&c.learn.run, int64(c.run/runUnit), false)
}

// end teaches the length of a call that ended.
func (g *guesses) end(c *call) {
	if g.exact {
		return
	}
	g.outputs.End(&c.learn.output, c.output, true)
	g.runs.End(&c.learn.run, int64(c.run/runUnit), true)
}
