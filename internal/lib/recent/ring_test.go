package recent

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// An owner of whom much happens pushes out nobody's past but its own.
func TestAudit_L8_OneOwnerPushesOutNobody(t *testing.T) {
	r := New[int](100)
	for i := range 20 {
		r.Keep("quiet", fmt.Sprint("q", i), i)
	}
	for i := range 10_000 {
		r.Keep("loud", fmt.Sprint("l", i), i)
	}
	for i := range 20 {
		if got := r.Find(fmt.Sprint("q", i)); !slices.Equal(got, []int{i}) {
			t.Errorf("q%d: %v", i, got)
		}
	}
	if got := r.Find("l9920"); len(got) != 1 {
		t.Error("the loud one's last 80 are not there")
	}
	if got := r.Find("l9919"); len(got) != 0 {
		t.Error("more than 100 are remembered")
	}
}

// What comes makes the past be forgotten only one for one, and an id that comes again is that of the
// newest value.
func TestRing_IsBounded(t *testing.T) {
	const most = 2048
	r := New[int](most)
	for i := range 2 * most {
		r.Keep("a", fmt.Sprint(i), i)
	}
	last := fmt.Sprint(2*most - 1)
	r.Keep("a", last, -1)
	if n := len(r.owners["a"].byID); n != most-1 || r.Find("0") != nil || !slices.Equal(r.Find(last), []int{-1}) {
		t.Errorf("%d are kept", n)
	}
	for i := range most - 1 {
		r.Keep("a", fmt.Sprint("new", i), i)
	}
	if !slices.Equal(r.Find(last), []int{-1}) {
		t.Error("the last one is forgotten with the one before it of the same id")
	}
}

// The ring does what a plain list does from which the oldest of the largest owner is dropped.
func TestRing(t *testing.T) {
	type kept struct {
		owner, id string
		value     int
	}
	rapid.Check(t, func(t *rapid.T) {
		const most = 12
		r := New[int](most)
		var list []kept
		for n := range rapid.IntRange(1, 100).Draw(t, "steps") {
			k := kept{rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "owner"), rapid.SampledFrom([]string{"1", "2", "3"}).Draw(t, "id"), n}
			r.Keep(k.owner, k.id, k.value)
			list = append(list, k)
			if r.kept > most {
				t.Fatalf("%d are kept", r.kept)
			}
			if len(list) > most {
				size := map[string]int{}
				for _, k := range list {
					size[k.owner]++
				}
				largest := 0
				for _, s := range size {
					largest = max(largest, s)
				}
				// Of several that are largest, any may lose one.
				lost := ""
				for name, s := range size {
					if s == largest && (r.owners[name] == nil || len(r.owners[name].items) < s) {
						lost = name
					}
				}
				if lost == "" {
					t.Fatalf("none of the largest lost one: %v", size)
				}
				at := slices.IndexFunc(list, func(k kept) bool { return k.owner == lost })
				list = slices.Delete(list, at, at+1)
			}
			for _, id := range []string{"1", "2", "3"} {
				newest := map[string]int{}
				for _, k := range list {
					if k.id == id {
						newest[k.owner] = k.value
					}
				}
				var want []int
				for _, v := range newest {
					want = append(want, v)
				}
				got := r.Find(id)
				slices.Sort(got)
				slices.Sort(want)
				if !slices.Equal(got, want) {
					t.Fatalf("%s: %v, want %v", id, got, want)
				}
			}
		}
	})
}

// TestDrop: values that are dropped are not found, and the others are kept as before, up to the same number.
func TestDrop(t *testing.T) {
	r := New[int](100)
	for i := range 60 {
		r.Keep([]string{"a", "b", "c"}[i%3], fmt.Sprint(i), i)
	}
	r.Drop(func(i int) bool { return i%2 == 0 || i%3 == 2 }) // all of c
	for i := range 60 {
		want := 1
		if i%2 == 0 || i%3 == 2 {
			want = 0
		}
		if got := r.Find(fmt.Sprint(i)); len(got) != want {
			t.Errorf("%d: %v, want %d values", i, got, want)
		}
	}
	for i := range 200 {
		r.Keep("loud", fmt.Sprint("l", i), i)
	}
	if len(r.Find("1")) != 1 || len(r.Find("l120")) != 1 || len(r.Find("l119")) != 0 { // 20 of a and b, and the last 80
		t.Errorf("after more: %v, %v, %v", r.Find("1"), r.Find("l120"), r.Find("l119"))
	}
}
