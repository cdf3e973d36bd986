package top

import (
	"cmp"

	"github.com/llmgov/llmgov/internal/ops/adminapi"
)

// leaseList lists the leases of all tenants, or of one.
func leaseList(tenant string, g Glyphs) *list[adminapi.Lease] {
	type L = adminapi.Lease
	l := &list[L]{
		plural: "leases", glyphs: g,
		id: func(l *L) string { return l.ID }, find: func(l *L) string { return l.Tenant + "\x00" + l.Pool + "\x00" + l.State + "\x00" + l.ID },
		rows: func(d *Data) []L {
			if tenant == "" {
				return d.Leases
			}
			var out []L
			for _, l := range d.Leases {
				if l.Tenant == tenant {
					out = append(out, l)
				}
			}
			return out
		},
		open: func(l *L) *screen { return tenantScreen(l.Tenant, g) },
		columns: []column[L]{
			{title: "TENANT", width: 12, name: true, text: func(l *L) string { return l.Tenant }},
			{title: "POOL", width: 10, name: true, rank: 3, text: func(l *L) string { return l.Pool }},
			{title: "STATE", width: 9, text: func(l *L) string { return l.State }, tone: func(l *L) tone { return when(l.State == "waiting", warn) }},
			{title: "AGE", width: 5, right: true, text: func(l *L) string { return span(l.AgeSeconds) }},
			{title: "HELD", width: 5, right: true, rank: 1, text: func(l *L) string { return short(l.HeldTokens) }},
			{title: "USED", width: 5, right: true, rank: 2, text: func(l *L) string { return short(l.UsedTokens) }},
			{title: "ANSWER", width: 6, rank: 4, text: func(l *L) string {
				if l.Stream {
					return "stream"
				}
				return "whole"
			}},
			{title: "LEASE", width: 10, name: true, rank: 5, text: func(l *L) string { return l.ID }},
		},
		orders: []order[L]{
			{"oldest", func(a, b *L) int { return cmp.Compare(b.AgeSeconds, a.AgeSeconds) }},
			{"held", func(a, b *L) int { return cmp.Compare(b.HeldTokens, a.HeldTokens) }},
			{"tenant", func(a, b *L) int { return cmp.Compare(a.Tenant, b.Tenant) }},
			{"state", func(a, b *L) int { return cmp.Compare(b.State, a.State) }},
		},
	}
	if tenant == "" {
		l.count = func(d *Data) int { return d.LeasesTotal }
	} else {
		l.columns[0].hide = func(*list[L]) bool { return true }
		l.open = nil
	}
	return l
}
