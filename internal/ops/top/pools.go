package top

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/llmgov/llmgov/internal/ops/adminapi"
)

// used is the usage of a limit, also as a part of 1; not ok without such a limit.
func used(p *adminapi.Pool, axis string) (a adminapi.Limit, part float64, ok bool) {
	for _, a := range p.Limits {
		if a.Axis == axis {
			return a, float64(a.Used) / float64(max(a.Limit, 1)), true
		}
	}
	return a, 0, false
}

// usedOf is the usage of a limit, such as 213k/297k.
func usedOf(p *adminapi.Pool, axis string) string {
	a, _, ok := used(p, axis)
	if !ok {
		return "-"
	}
	return short(a.Used) + "/" + short(a.Limit)
}

// fullest is the usage of the rolling limit that is fullest.
func fullest(p *adminapi.Pool) (most float64) {
	for _, a := range p.Limits {
		if _, part, _ := used(p, a.Axis); a.Axis != "concurrency" {
			most = max(most, part)
		}
	}
	return most
}

// tokensOf is the usage of the limit on tokens, or without one that on input or output, whichever is fuller.
func tokensOf(p *adminapi.Pool) string {
	_, input, _ := used(p, "input_tokens")
	_, output, some := used(p, "output_tokens")
	_, _, both := used(p, "tokens")
	switch {
	case both:
		return usedOf(p, "tokens")
	case some && output >= input:
		return usedOf(p, "output_tokens")
	}
	return usedOf(p, "input_tokens")
}

// rateOf is the part of its rate that a pool uses.
func rateOf(p *adminapi.Pool) string {
	if p.HeldUntil != nil {
		return "held"
	}
	return percent(p.RateRatio)
}

// storeOf is the state of a pool's sharing with other gateways.
func storeOf(s *adminapi.Sharing) string {
	switch {
	case s == nil:
		return "-"
	case s.Degraded != "":
		return s.Degraded
	case s.Error != "":
		return "no answer"
	}
	return cmp.Or(s.Status, "waiting")
}

func storeTone(s *adminapi.Sharing) tone {
	return when(s != nil && (s.Degraded != "" || s.Error != ""), bad)
}

func poolList(g Glyphs) *list[adminapi.Pool] {
	type P = adminapi.Pool
	return &list[P]{
		plural: "pools", glyphs: g,
		id: func(p *P) string { return p.Name }, find: func(p *P) string { return p.Name },
		rows: func(d *Data) []P { return d.Pools },
		open: func(p *P) *screen { return poolScreen(p.Name, g) },
		columns: []column[P]{
			{title: "POOL", width: 10, name: true, text: func(p *P) string { return p.Name }},
			{title: "MINUTE", width: 8, rank: 4, bar: func(p *P, w int, g Glyphs) string { return g.bar(fullest(p), -1, w) }, tone: func(*P) tone { return bar }},
			{title: "TOKENS", width: 9, right: true, text: tokensOf},
			{title: "REQUESTS", width: 9, right: true, rank: 6, text: func(p *P) string { return usedOf(p, "requests") }},
			{title: "RUN", width: 7, right: true, rank: 3, text: func(p *P) string {
				if _, _, ok := used(p, "concurrency"); ok {
					return usedOf(p, "concurrency")
				}
				return short(p.Running)
			}},
			{title: "WAIT", width: 4, right: true, text: func(p *P) string { return short(int64(p.Waiting)) }, tone: func(p *P) tone { return when(p.Waiting > 0, warn) }},
			{title: "OLDEST", width: 6, right: true, rank: 5, text: func(p *P) string { return span(p.OldestWait) }},
			{title: "JAIN", width: 5, right: true, rank: 7, text: func(p *P) string { return strconv.FormatFloat(p.Fairness.Jain, 'f', 3, 64) }, tone: func(p *P) tone { return when(p.Fairness.Jain < 0.9, warn) }},
			{title: "OFF", width: 5, right: true, rank: 8, text: func(p *P) string { return percent(p.Fairness.Deviation) }},
			{
				title: "SERVER", width: 6, name: true, rank: 2, text: serverOf,
				tone: func(p *P) tone {
					if list := servers(p); len(list) > 0 {
						return serverTone(list[0].Engine)
					}
					return plain
				},
				hide: func(l *list[P]) bool {
					return !slices.ContainsFunc(l.all, func(p P) bool { return len(servers(&p)) > 0 })
				},
			},
			{title: "RATE", width: 4, right: true, rank: 2, text: rateOf, tone: func(p *P) tone { return when(p.RateRatio < 1, bad) }},
			{
				title: "STORE", width: 9, name: true, rank: 1, text: func(p *P) string { return storeOf(p.Sharing) }, tone: func(p *P) tone { return storeTone(p.Sharing) },
				hide: func(l *list[P]) bool { return !(&Data{Snapshot: adminapi.Snapshot{Pools: l.all}}).shared() },
			},
		},
		orders: []order[P]{
			{name: asConfigured},
			{"use", func(a, b *P) int { return cmp.Compare(fullest(b), fullest(a)) }},
			{"waiting", func(a, b *P) int { return cmp.Compare(b.Waiting, a.Waiting) }},
			{"oldest wait", func(a, b *P) int { return cmp.Compare(b.OldestWait, a.OldestWait) }},
			{"least fair", func(a, b *P) int { return cmp.Compare(a.Fairness.Jain, b.Fairness.Jain) }},
			{"name", func(a, b *P) int { return cmp.Compare(a.Name, b.Name) }},
		},
	}
}
