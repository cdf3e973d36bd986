// Package spend counts what calls have taken and cost, by day, tenant, model and upstream.
//
//	Book.Add ──► rows of the last days ──► a journal, which keeps them over the end of the process
//	                    └────────────────► a store, which has those of all gateways
//
// Rows are sums, and never deltas: whoever is told of one may be told again, and keeps the larger. So no retry counts twice.
//
// # Stability
//
// Experimental: any release may change it.
package spend

import (
	"cmp"
	"sort"
	"strings"
	"time"
)

// Other is the model, or the upstream, of calls that are not counted by their own.
const Other = "other"

// KeepDays is for how many days rows are kept.
const KeepDays = 400

// Key says of what a row is the sum.
type Key struct {
	Day      string // such as 2027-01-31, in the gateway's time zone
	Tenant   string // with its team, if it has one: acme/search
	Model    string
	Upstream string
}

// Team splits the name of a tenant and its team, which is "" for calls of the tenant's own.
func (k Key) Team() (tenant, team string) {
	tenant, team, _ = strings.Cut(k.Tenant, "/")
	return tenant, team
}

// Figure is one of the numbers of a row.
type Figure int

// The figures. Tokens that an upstream has cached are part of Input, and what was estimated is part of the others.
const (
	Calls Figure = iota
	Input
	CachedInput
	Output
	EstimatedTokens
	MicroUSD
	EstimatedMicroUSD
	numFigures
)

// Columns are the names of the figures, in tables and files.
var Columns = [numFigures]string{
	"calls", "input_tokens", "cached_input_tokens", "output_tokens", "estimated_tokens", "micro_usd", "estimated_micro_usd",
}

// Sum has all figures.
type Sum [numFigures]int64

// Plus is the sum of both.
func (s Sum) Plus(o Sum) Sum {
	for i := range s {
		s[i] += o[i]
	}
	return s
}

// Row is the sum of a key.
type Row struct {
	Key
	Sum
}

// Compare orders rows by their keys.
func Compare(a, b Row) int {
	return cmp.Or(strings.Compare(a.Day, b.Day), strings.Compare(a.Tenant, b.Tenant), strings.Compare(a.Model, b.Model), strings.Compare(a.Upstream, b.Upstream))
}

// DayOf is the day of a time, in its location.
func DayOf(t time.Time) string { return t.Format(time.DateOnly) }

// Sums adds up rows by their keys.
type Sums map[Key]Sum

// Add adds to a key.
func (s Sums) Add(k Key, x Sum) { s[k] = s[k].Plus(x) }

// Rows are the sums in the order of Compare.
func (s Sums) Rows() []Row {
	out := make([]Row, 0, len(s))
	for k, x := range s {
		out = append(out, Row{k, x})
	}
	sort.Slice(out, func(i, j int) bool { return Compare(out[i], out[j]) < 0 }) // by slices it would be 25 KB of code
	return out
}
