package glob

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestMatch_Oracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := somePattern.Draw(t, "pattern")
		m := someName.Draw(t, "model")
		if got, want := Match(p, m), slowMatch(p, m); got != want {
			t.Fatalf("match(%q, %q) = %v, want %v", p, m, got, want)
		}
	})
}

// TestOverlap_Oracle compares with trying names: two patterns of up to 6 characters overlap in a name of at most 12.
func TestOverlap_Oracle(t *testing.T) {
	short := rapid.StringMatching(`[ab*]{1,4}`)
	var names []string
	for n := range 9 {
		for bits := range 1 << n {
			name := make([]byte, n)
			for i := range name {
				name[i] = "ab"[bits>>i&1]
			}
			names = append(names, string(name))
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		a := short.Draw(t, "a")
		b := short.Draw(t, "b")
		want := slices.ContainsFunc(names, func(n string) bool { return Match(a, n) && Match(b, n) })
		if got := Overlap(a, b); got != want || Overlap(b, a) != want {
			t.Fatalf("overlap(%q, %q) = %v, reversed %v; want %v", a, b, got, Overlap(b, a), want)
		}
	})
}

func TestMatch_NoBlowUp(t *testing.T) {
	if Match(strings.Repeat("a*", 60)+"b", strings.Repeat("a", 4000)) {
		t.Error("matched without a b")
	}
}

var (
	somePattern = rapid.StringMatching(`[ab*]{1,6}`).Filter(func(s string) bool { return s == Plain(s) })
	someName    = rapid.StringMatching(`[ab]{0,7}`)
)

// slowMatch is match by way of a regular expression.
func slowMatch(pattern, name string) bool {
	expr := strings.ReplaceAll(regexp.QuoteMeta(pattern), `\*`, ".*")
	return regexp.MustCompile("^(?s:" + expr + ")$").MatchString(name)
}
