package placement

import (
	"slices"
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/internal/lib/affinity"
)

// Config says which upstreams a pool has.
type Config struct {
	Upstreams []Spec
	// Holds says that the provider counts tokens later than at admission.
	Holds bool
}

// Next are the books under another configuration; nil if it has no upstreams. Those that stay, by their name, keep their limits;
// open makes the limits of a new one. Give them to escrow.Pool.SetUpstreams, with Since.
func (b *Books[L]) Next(now time.Time, c Config, open func(name string) L) *Books[L] {
	if len(c.Upstreams) == 0 {
		return nil
	}
	next := &Books[L]{holds: c.Holds}
	for _, spec := range c.Upstreams {
		u := b.named(spec.Name)
		if u == nil {
			u = &Upstream[L]{Limits: open(spec.Name), seed: affinity.SeedOf(spec.Name)}
		}
		u.Spec = spec
		u.left = time.Time{}
		next.List = append(next.List, u)
	}
	if b != nil {
		next.calls = b.calls
		next.keep(now, b)
	}
	return next
}

// named is the upstream with a name, also one that is gone; nil if there is none.
func (b *Books[L]) named(name string) *Upstream[L] {
	if b == nil {
		return nil
	}
	for _, u := range slices.Concat(b.List, b.gone) {
		if u.Name == name {
			return u
		}
	}
	return nil
}

// keep keeps the upstreams that have left the list before, while their usage may count.
func (b *Books[L]) keep(now time.Time, before *Books[L]) {
	for _, u := range slices.Concat(before.List, before.gone) {
		if slices.Contains(b.List, u) {
			continue
		}
		if u.left.IsZero() {
			u.left = now
		}
		if now.Sub(u.left) <= 2*escrow.Window || !u.Limits.Idle() {
			b.gone = append(b.gone, u)
		}
	}
}

// Since is where the upstreams of the configuration before stand now.
func (b *Books[L]) Since(before *Books[L]) (m escrow.Moved) {
	m.All = b.Mask(0)
	if before == nil {
		return m
	}
	for _, u := range before.List {
		at := -1
		if b != nil {
			at = slices.Index(b.List, u)
		}
		m.To = append(m.To, at)
	}
	return m
}
