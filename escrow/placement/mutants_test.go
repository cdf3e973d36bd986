package placement

import (
	"flag"
	"testing"

	"github.com/llmgov/llmgov/internal/testkit/mutation"
)

// mutants are the rules one by one, each of which TestModel was seen to miss when it was broken.
var mutants = []mutation.Mutant{
	{Rule: "a call is booked at its upstream", File: "books.go", Old: "hold: u.Limits.Book(now, CostOf(c), b.holds)", New: "hold: u.Limits.Book(now, limits.Cost{}, b.holds)"},
	{Rule: "and at no other", File: "books.go", Old: "	u := b.List[index]\n", New: "	u := b.List[(index+1)%len(b.List)]\n"},
	{Rule: "what a call took counts where it ran", File: "books.go", Old: "u.Limits.Settle(now, &c.hold, CostOf(actual), ran)", New: "b.List[0].Limits.Settle(now, &c.hold, CostOf(actual), ran)"},
	{Rule: "a call that ends gives back what it did not take", File: "books.go", Old: "CostOf(actual), ran)", New: "CostOf(escrow.Cost{escrow.Tokens: 1}), ran)"},
	{Rule: "and keeps what it took", File: "books.go", Old: "CostOf(actual), ran)", New: "limits.Cost{}, ran)"},
	{Rule: "what is counted late counts until a call ends", File: "account.go", Old: "	if holds {", New: "	if false && holds {"},
	{Rule: "also after a reload", File: "change.go", Old: "next := &Books[L]{holds: c.Holds}", New: "next := &Books[L]{holds: c.Holds && b == nil}"},
	{Rule: "an upstream without room gets no call", File: "account.go", Old: "return axis, !fits", New: "return axis, fits && false"},
	{Rule: "one that is closed gets none", File: "upstream.go", Old: "	if now.Before(u.Closed) {\n		return limits.Tokens, true\n	}\n", New: ""},
	{Rule: "a call goes only where it may", File: "books.go", Old: "for left := among; left != 0; left &= left - 1 {", New: "for left := escrow.Mask(1)<<len(b.List) - 1; left != 0; left &= left - 1 {"},
	{Rule: "calls are known after a reload", File: "change.go", Old: "next.calls = b.calls", New: "_ = b.calls"},
	{Rule: "limits are known after a reload", File: "change.go", Old: "u := b.named(spec.Name)", New: "u := (*Upstream[L])(nil)"},
	{Rule: "also of an upstream that was left out for a while", File: "change.go", Old: "b.gone = append(b.gone, u)", New: "_ = u"},
	{Rule: "calls that wait keep their upstreams when the list is another", File: "change.go", Old: "at = slices.Index(b.List, u)", New: "at = slices.Index(before.List, u)"},
	{Rule: "of several only those that are left", File: "change.go", Old: "m.To = append(m.To, at)", New: "m.To = append(m.To, min(at, -1))"},
}

// TestMutants breaks each rule, in the source itself, and runs the search that has to fail.
// Without -mutants it only sees that the source is as the table says.
func TestMutants(t *testing.T) {
	for i := range mutants {
		mutants[i].Test = "TestModel"
	}
	mutation.Run(t, *tryMutants, mutants)
}

var (
	wholeSearch = flag.Bool("whole", false, "search the small worlds to the end, or until there are very many states")
	tryMutants  = flag.Bool("mutants", false, "break each rule in turn, and see a test fail")
)
