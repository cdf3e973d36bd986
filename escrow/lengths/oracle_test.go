package lengths

import (
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"
)

// visit is one call in one bin, as somebody remembers it who forgets nothing.
type visit struct {
	bin    int
	fades  int     // of its level, when it came
	part   float64 // of the bin that it could have ended in
	ended  bool
	length int64
}

// level is all that one kind ever saw, and how often it was to forget a half.
type level struct {
	visits               []*visit
	fades, ends, running int
	most                 int64
}

// stay is one call as the oracle has it: its visits, at every level of its chain.
type stay struct {
	chain []*level
	last  []*visit
}

func (s *stay) enter(bin int) {
	for i, l := range s.chain {
		if s.last[i] != nil {
			s.last[i].part = 1
		}
		s.last[i] = &visit{bin: bin, fades: l.fades, part: .5}
		l.visits = append(l.visits, s.last[i])
	}
}

// hazard of a bin and the mean length of what ends in it, by going through
// everything; drawn to what the levels above say, if any.
func hazard(chain []*level, bin int) (h, v float64) {
	seen := 1.0
	ended := 0.0
	sum := 0.0
	if len(chain) > 1 {
		h, v = hazard(chain[1:], bin)
		ended = h
		sum = h * v
	}
	for _, x := range chain[0].visits {
		if x.bin != bin {
			continue
		}
		w := math.Pow(.5, float64(chain[0].fades-x.fades))
		seen += w * x.part
		if x.ended {
			ended += w
			sum += w * float64(x.length)
		}
	}
	if ended == 0 {
		return 0, 0
	}
	return ended / seen, sum / ended
}

// expected is the mean length of calls that came to bin.
func expected(chain []*level, bin int) float64 {
	most := chain[0].most
	if floorOf(bin) > most {
		return float64(most)
	}
	h, v := hazard(chain, bin)
	return h*min(v, float64(most)) + (1-h)*expected(chain, bin+1)
}

// A Book says what one would say who remembers every call in every bin.
//
// Seen to fail with: w in complete → 1; here left out, or whole, in build; w/2 in
// cut → w, → 0; the parent's gain left out; gain's cap left out; fade that leaves
// here; half-life off by one.
func TestBookSaysWhatTheOracleSays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := Config{Enough: 1, HalfLife: int64(rapid.IntRange(1, 8).Draw(t, "half-life"))}
		b := New(cfg)
		known := map[string]*level{}
		type call struct {
			Stream
			stay
			at int64
		}
		var calls []*call
		kinds := []Kind{{"a", "x", "m"}, {"b", "x", "m"}, {"c", "y", "m"}}
		chainOf := func(k Kind, most int64) []*level {
			chain := []*level{}
			for _, name := range []string{fmt.Sprint(k), k.Tier + " " + k.Model, k.Model} {
				if known[name] == nil {
					known[name] = &level{}
				}
				known[name].most = max(known[name].most, most)
				chain = append(chain, known[name])
			}
			return chain
		}
		for step := range rapid.IntRange(1, 90).Draw(t, "steps") {
			if len(calls) == 0 || rapid.IntRange(0, 3).Draw(t, "what") == 0 {
				k := rapid.SampledFrom(kinds).Draw(t, "kind")
				most := rapid.Int64Range(33, 64).Draw(t, "most") // one power of two
				c := &call{Stream: b.Start(k, most), stay: stay{chainOf(k, most), make([]*visit, levels)}}
				for _, l := range c.chain {
					l.running++
				}
				c.enter(0)
				calls = append(calls, c)
				continue
			}
			i := rapid.IntRange(0, len(calls)-1).Draw(t, "call")
			c := calls[i]
			to := c.at
			if rapid.Bool().Draw(t, "goes on") {
				to = rapid.Int64Range(c.at, c.most).Draw(t, "to")
			}
			for bin := binOf(c.at) + 1; bin <= binOf(to); bin++ {
				c.enter(bin)
			}
			c.at = to
			if rapid.Bool().Draw(t, "runs on") {
				b.Reach(&c.Stream, to)
			} else {
				whole := rapid.IntRange(0, 3).Draw(t, "whole") > 0
				b.End(&c.Stream, to, whole)
				for i, l := range c.chain {
					if whole {
						*c.last[i] = visit{bin: binOf(to), fades: c.last[i].fades, part: 1, ended: true, length: to}
					}
					l.running--
					l.ends++
					if l.ends >= max(int(cfg.HalfLife), l.running) {
						l.ends = 0
						l.fades++
					}
				}
				calls = append(calls[:i], calls[i+1:]...)
			}
			if step%5 == 0 {
				compare(t, b, kinds, known)
			}
		}
	})
}

// compare asks for every kind that is known, at every bin.
func compare(t *rapid.T, b *Book, kinds []Kind, known map[string]*level) {
	settle(b)
	for _, k := range kinds {
		own := known[fmt.Sprint(k)]
		i := b.find(keyOf(k, 64), &b.latest)
		if own == nil || i == 0 || !b.knows(i) {
			continue
		}
		chain := []*level{own, known[k.Tier+" "+k.Model], known[k.Model]}
		b.refresh(i)
		for bin := 0; floorOf(bin) < own.most; bin++ {
			got := b.mean(i, floorOf(bin))
			want := expected(chain, bin)
			if math.Abs(got-want) > 1e-6*want {
				t.Fatalf("%v, at %d of %d: expected %.6f, by the oracle %.6f", k, floorOf(bin), own.most, got, want)
			}
		}
	}
}

// Whatever was learned: an answer is between what is produced and what is
// allowed, and never falls as a call goes on.
//
// Seen to fail with: max(…, produced) left out of ask; the line in mean upside down.
func TestAnswersAreInBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := New(Config{Enough: 1, HalfLife: rapid.Int64Range(1, 100).Draw(t, "half-life")})
		draw := rapid.Custom(func(t *rapid.T) int64 {
			return rapid.Int64Range(0, int64(1)<<rapid.IntRange(0, 30).Draw(t, "magnitude")).Draw(t, "length")
		})
		kinds := []Kind{{"a", "x", "m"}, {"b", "x", "m"}, {"c", "y", "m"}}
		for range rapid.IntRange(0, 100).Draw(t, "calls") {
			s := b.Start(rapid.SampledFrom(kinds).Draw(t, "kind"), draw.Draw(t, "most"))
			b.Reach(&s, draw.Draw(t, "reach"))
			if rapid.Bool().Draw(t, "ends") {
				b.End(&s, draw.Draw(t, "actual"), rapid.Bool().Draw(t, "whole"))
			}
		}
		k := rapid.SampledFrom(kinds).Draw(t, "kind")
		most := draw.Draw(t, "most")
		s := b.Start(k, most)
		if e := b.Expect(&s); e < 0 || e > most {
			t.Fatalf("expects %d of at most %d", e, most)
		}
		before := int64(0)
		for p := int64(0); p <= most+most/8; p += max(1, most/200) {
			// By a copy: what it has come through is not to count.
			c := s
			got := b.ask(&c, p)
			if got < p || got > max(p, most) || got < before {
				t.Fatalf("having produced %d of %d, %d is expected; before, %d was", p, most, got, before)
			}
			before = got
		}
	})
}
