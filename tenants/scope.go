package tenants

import (
	"slices"
	"strings"
)

// MayUse reports whether the tenant's grant, and those of all its parents, cover a model. Whether any pool serves the
// model is not asked. It allocates nothing.
func (t *Tenant) MayUse(model string) bool {
	if !granted(t.Models, model) {
		return false
	}
	for _, bound := range t.Bounds {
		if !granted(bound, model) {
			return false
		}
	}
	return true
}

func granted(patterns []string, model string) bool {
	for _, p := range patterns {
		if p == model || match(p, model) {
			return true
		}
	}
	return false
}

// scope is what t may use, as patterns: its own where no parent narrows them. Where one does, two patterns with a name
// in common become one that begins and ends as such names do, since [overlap] asks no more of a glob. What stands
// between their stars is lost, so whether t may use a single name is for MayUse.
func (t *Tenant) scope() []string {
	list := t.Models
	if len(t.Bounds) == 0 {
		return list
	}
	for _, bound := range t.Bounds {
		list = narrow(list, bound)
	}
	return t.usable(list)
}

// usable is list without names that t may not use.
func (t *Tenant) usable(list []string) []string {
	return slices.DeleteFunc(list, func(m string) bool { return !isGlob(m) && !t.MayUse(m) })
}

// narrow lists what names of both lists match, each once. It stops beyond maxCommon, which the loader refuses.
func narrow(list, by []string) []string {
	var out []string
	for _, a := range list {
		for _, b := range by {
			if len(out) > maxCommon {
				return out
			}
			if a == "" || b == "" || !overlap(a, b) {
				continue
			}
			for _, both := range common(a, b) {
				if !slices.Contains(out, both) {
					out = append(out, both)
				}
			}
		}
	}
	return out
}

// common are patterns of the names that two overlapping patterns share.
func common(a, b string) []string {
	switch {
	case match(b, a): // b covers a: its stars stand for those of a as for any character
		return []string{a}
	case match(a, b):
		return []string{b}
	}
	head := a[:strings.IndexByte(a, '*')]
	tail := a[strings.LastIndexByte(a, '*')+1:]
	if other := b[:strings.IndexByte(b, '*')]; len(other) > len(head) {
		head = other
	}
	if other := b[strings.LastIndexByte(b, '*')+1:]; len(other) > len(tail) {
		tail = other
	}
	all := []string{head + "*" + tail}
	for n := 1; n <= min(len(head), len(tail)); n++ { // names so short that one letter is of both
		if strings.HasSuffix(head, tail[:n]) {
			all = append(all, head+tail[n:])
		}
	}
	return all
}
