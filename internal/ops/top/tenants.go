package top

import (
	"cmp"
	"math"
	"strconv"

	"github.com/llmgov/llmgov/internal/ops/adminapi"
)

// tenantRow is a tenant's part of one pool.
type tenantRow struct {
	pool string
	most float64 // the largest part that a tenant of the list received, or is entitled to
	adminapi.Share
}

// tenantList lists the tenants of all pools, or of one.
func tenantList(pool string, g Glyphs) *list[tenantRow] {
	type T = tenantRow
	return &list[T]{
		plural: "tenants", glyphs: g,
		id: func(t *T) string { return t.pool + "\x00" + t.Name }, find: func(t *T) string { return t.Name },
		rows: func(d *Data) []T { return tenantRows(d, pool) },
		count: func(d *Data) int {
			n := 0
			for i := range d.Pools {
				if pool == "" || d.Pools[i].Name == pool {
					n += d.Pools[i].Fairness.TenantsTotal
				}
			}
			return n
		},
		open: func(t *T) *screen { return tenantScreen(t.Name, g) },
		columns: []column[T]{
			{title: "TENANT", width: 12, name: true, text: func(t *T) string { return t.Name }},
			{title: "POOL", width: 8, name: true, rank: 1, text: func(t *T) string { return t.pool }, hide: onePool},
			{title: "WT", width: 4, right: true, rank: 9, text: func(t *T) string { return strconv.FormatFloat(t.Weight, 'g', 3, 64) }},
			{title: "ENTITLED", width: 8, right: true, text: func(t *T) string { return percent(t.Entitled) }},
			{title: "RECEIVED", width: 8, right: true, text: func(t *T) string { return percent(t.Received) }},
			{
				title: "", width: 6, rank: 6, tone: func(*T) tone { return bar },
				bar: func(t *T, w int, g Glyphs) string { return g.bar(t.Received/t.most, t.Entitled/t.most, w) },
			},
			{title: "RUN", width: 4, right: true, rank: 3, text: func(t *T) string { return short(int64(t.Running)) }},
			{title: "QUEUE", width: 5, right: true, rank: 1, text: func(t *T) string { return short(int64(t.Queued)) }, tone: func(t *T) tone { return when(t.Queued > 0, warn) }},
			{title: "WAIT", width: 5, right: true, rank: 2, text: func(t *T) string { return span(t.OldestWait) }},
			{title: "DEBT", width: 5, right: true, rank: 5, text: func(t *T) string { return short(t.Debt) }},
			{title: "BORROW", width: 6, right: true, rank: 8, text: func(t *T) string { return short(t.Borrowed) }},
			{title: "LENT", width: 5, right: true, rank: 7, text: func(t *T) string { return short(t.Lent) }},
		},
		orders: []order[T]{
			{"received", func(a, b *T) int { return cmp.Compare(b.Received, a.Received) }},
			{"off the entitled", func(a, b *T) int { return cmp.Compare(off(b), off(a)) }},
			{"queue", func(a, b *T) int { return cmp.Compare(b.Queued, a.Queued) }},
			{"wait", func(a, b *T) int { return cmp.Compare(b.OldestWait, a.OldestWait) }},
			{"debt", func(a, b *T) int { return cmp.Compare(b.Debt, a.Debt) }},
			{"borrowed", func(a, b *T) int { return cmp.Compare(b.Borrowed, a.Borrowed) }},
			{"name", func(a, b *T) int { return cmp.Compare(a.Name, b.Name) }},
			{name: asConfigured},
		},
	}
}

func off(t *tenantRow) float64 { return math.Abs(t.Received - t.Entitled) }

func tenantRows(d *Data, pool string) []tenantRow {
	var out []tenantRow
	for i := range d.Pools {
		p := &d.Pools[i]
		if pool != "" && pool != p.Name {
			continue
		}
		most := 0.0
		for k := range p.Fairness.Tenants {
			most = max(most, p.Fairness.Tenants[k].Entitled, p.Fairness.Tenants[k].Received)
		}
		if most == 0 {
			most = 1 // because nobody received anything
		}
		for k := range p.Fairness.Tenants {
			out = append(out, tenantRow{p.Name, most, p.Fairness.Tenants[k]})
		}
	}
	return out
}

// onePool reports whether all rows are of the same pool, so that none needs to name it.
func onePool(l *list[tenantRow]) bool {
	return len(l.all) == 0 || l.all[0].pool == l.all[len(l.all)-1].pool
}
