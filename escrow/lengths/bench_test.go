package lengths

import (
	"fmt"
	"testing"

	"github.com/llmgov/llmgov/internal/test/testkit"
)

// Seen to fail with: strings.Clone in keyOf.
func TestNothingAllocates(t *testing.T) {
	b := New(Config{})
	teach(b, someKind, 4096, 300, 100)
	n := int64(0)
	for name, f := range map[string]func(){
		"call": func() {
			s := b.Start(someKind, 4096)
			b.Expect(&s)
			for p := int64(0); p < 500+n%500; p += 30 {
				b.Reach(&s, p)
			}
			n += 37
			b.End(&s, 500+n%500, n%3 > 0)
		},
		"quantile": func() { b.Quantile(someKind, 4096, .95) },
		"unknown":  func() { b.Quantile(Kind{Model: "x"}, 4096, .95) },
	} {
		if got := testkit.Allocs(t, 2000, f); got != 0 {
			t.Errorf("%s: %d allocations", name, got)
		}
	}
}

// crowd is 10,000 calls of so many tenants that run, each somewhere.
func crowd(tenants int) (*Book, []Stream, []int64, []Kind) {
	b := New(Config{})
	r := newRand(1)
	l := laws[1]
	kinds := make([]Kind, tenants)
	for i := range kinds {
		kinds[i] = Kind{fmt.Sprint(i), "gold", "m"}
		for range 50 {
			s := b.Start(kinds[i], l.most)
			b.End(&s, l.draw(r), true)
		}
	}
	calls := make([]Stream, 10_000)
	at := make([]int64, 10_000)
	for i := range calls {
		calls[i] = b.Start(kinds[i%tenants], l.most)
		at[i] = r.Int64N(500)
		b.Reach(&calls[i], at[i])
	}
	return b, calls, at, kinds
}

// BenchmarkReach is one turn of a running call, by 15 tokens; one in about forty
// ends and is replaced.
func BenchmarkReach(b *testing.B) {
	for _, tenants := range []int{1, 1000} {
		b.Run(fmt.Sprintf("tenants=%d", tenants), func(b *testing.B) {
			book, calls, at, kinds := crowd(tenants)
			r := newRand(2)
			l := laws[1]
			lengths := make([]int64, len(calls))
			for i := range lengths {
				lengths[i] = at[i] + l.draw(r)
			}
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				i++
				if i == len(calls) {
					i = 0
				}
				at[i] += 15
				if at[i] < lengths[i] {
					book.Reach(&calls[i], at[i])
					continue
				}
				book.End(&calls[i], lengths[i], true)
				calls[i], at[i], lengths[i] = book.Start(kinds[i%tenants], l.most), 0, l.draw(r)
			}
		})
	}
}

// BenchmarkCall is a call that is not watched: Start, Expect, End.
func BenchmarkCall(b *testing.B) {
	for _, tenants := range []int{1, 1000} {
		b.Run(fmt.Sprintf("tenants=%d", tenants), func(b *testing.B) {
			book, _, _, kinds := crowd(tenants)
			r := newRand(2)
			l := laws[1]
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				i++
				if i == tenants {
					i = 0
				}
				s := book.Start(kinds[i], l.most)
				book.Expect(&s)
				book.End(&s, l.draw(r), true)
			}
		})
	}
}

// BenchmarkBriefCall is a call that takes a small part of the most that it may, by one of 1000 tenants which have hardly
// any experience of their own: its duration, say.
func BenchmarkBriefCall(b *testing.B) {
	book := New(Config{})
	r := newRand(1)
	kinds := make([]Kind, 1000)
	for i := range kinds {
		kinds[i] = Kind{fmt.Sprint(i), "gold", "m"}
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		s := book.Start(kinds[i%len(kinds)], 600_000)
		book.Expect(&s)
		book.End(&s, 5+r.Int64N(40), true)
	}
}
