package top

import (
	"cmp"

	"github.com/llmgov/llmgov/internal/ops/adminapi"
)

// nodeRow is a gateway that shares a pool's limits.
type nodeRow struct {
	pool string
	this bool
	adminapi.SharingNode
}

func nodeList(g Glyphs) *list[nodeRow] {
	type N = nodeRow
	return &list[N]{
		plural: "nodes", glyphs: g,
		id: func(n *N) string { return n.pool + "\x00" + n.Name }, find: func(n *N) string { return n.pool + "\x00" + n.Name + "\x00" + n.Region },
		rows: nodeRows,
		open: func(n *N) *screen { return poolScreen(n.pool, g) },
		columns: []column[N]{
			{title: "NODE", width: 12, name: true, text: func(n *N) string {
				if n.this {
					return n.Name + " (this)"
				}
				return n.Name
			}},
			{title: "REGION", width: 6, name: true, rank: 5, text: func(n *N) string { return n.Region }},
			{title: "POOL", width: 8, name: true, text: func(n *N) string { return n.pool }},
			{title: "STATE", width: 5, text: func(n *N) string {
				if n.Live {
					return "live"
				}
				return "lost"
			}, tone: func(n *N) tone { return when(!n.Live, bad) }},
			{title: "HEARD", width: 5, right: true, rank: 4, text: func(n *N) string { return span(max(n.SeenSeconds, 0.1)) }},
			{title: "TOKENS", width: 6, right: true, text: func(n *N) string { return short(n.Tokens) }},
			{title: "REQS", width: 5, right: true, rank: 3, text: func(n *N) string { return short(n.Requests) }},
			{title: "WAITING", width: 7, right: true, rank: 2, text: func(n *N) string { return short(n.WaitingTokens) }, tone: func(n *N) tone { return when(n.WaitingTokens > 0, warn) }},
			{title: "GRANT/MIN", width: 9, right: true, text: func(n *N) string { return short(n.GrantTPM) }},
			{title: "RPM", width: 5, right: true, rank: 6, text: func(n *N) string { return short(n.GrantRPM) }},
		},
		orders: []order[N]{
			{name: asConfigured},
			{"used", func(a, b *N) int { return cmp.Compare(b.Tokens, a.Tokens) }},
			{"waiting", func(a, b *N) int { return cmp.Compare(b.WaitingTokens, a.WaitingTokens) }},
			{"grant", func(a, b *N) int { return cmp.Compare(b.GrantTPM, a.GrantTPM) }},
			{"name", func(a, b *N) int { return cmp.Compare(a.Name, b.Name) }},
		},
	}
}

func nodeRows(d *Data) []nodeRow {
	var out []nodeRow
	for i := range d.Pools {
		if s := d.Pools[i].Sharing; s != nil {
			for _, n := range s.Nodes {
				out = append(out, nodeRow{d.Pools[i].Name, n.Name == d.Node, n})
			}
		}
	}
	return out
}
