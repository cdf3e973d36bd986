package federation

import (
	"math"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/llmgov/llmgov/internal/test/testkit"
)

// TestEncode: what is written down is read back, to the last bit.
func TestEncode(t *testing.T) {
	amount := rapid.SampledFrom([]int64{0, 1, -1, 127, 128, 20_000, maxBooked, -maxBooked, math.MaxInt64, math.MinInt64})
	anyBook := func(t *rapid.T) (b book) {
		slot := rapid.Int64().Draw(t, "slot") / 2
		for range rapid.IntRange(0, 5).Draw(t, "slots") {
			b = append(b, Booked{slot, Amounts{amount.Draw(t, "tokens"), amount.Draw(t, "requests")}})
			slot += rapid.Int64Range(1, 300).Draw(t, "later")
		}
		return b
	}
	rapid.Check(t, func(t *rapid.T) {
		a := NewAccount(DefaultRules(), 1_000_000, Options{Incarnation: "i"})
		a.Booked, a.Gone = anyBook(t), anyBook(t)
		for _, name := range []string{"a", "b"} {
			m := &Member{Booked: anyBook(t)}
			for range rapid.IntRange(0, 3).Draw(t, "points") {
				m.Curve = append(m.Curve, Point{rapid.Float64().Draw(t, "level"), [axes]float64{rapid.Float64().Draw(t, "use"), math.Inf(1)}})
			}
			a.Members[name] = m
		}
		text := testkit.Must(a.Encode())(t)
		got := testkit.Must(Decode(text, a.Rules))(t)
		if diff := cmp.Diff(a, got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("- written, + read:\n%s", diff)
		}
	})
}

// TestDecodeShort: what is cut off is not taken for less.
func TestDecodeShort(t *testing.T) {
	text, _ := book{{1_000_000, Amounts{20_000, 200}}}.GobEncode()
	for n := 1; n < len(text); n++ {
		if err := new(book).GobDecode(text[:n]); err == nil {
			t.Errorf("%d bytes of the %d of a book are taken for one", n, len(text))
		}
	}
	text, _ = curve{{1, [axes]float64{2, 3}}}.GobEncode()
	for n := 1; n < len(text); n++ {
		if err := new(curve).GobDecode(text[:n]); err == nil {
			t.Errorf("%d bytes of the %d of a curve are taken for one", n, len(text))
		}
	}
}

// TestDecode_FirstRelease: an account that the first release wrote goes on, and what its nodes have used counts.
func TestDecode_FirstRelease(t *testing.T) {
	text := testkit.Must(os.ReadFile("testdata/first.account"))(t)
	a := testkit.Must(Decode(text, DefaultRules()))(t)
	r := a.Beat(1_700_000_000_500, "first", 2, &Beat{
		Node: "a", Instance: "a", Seq: 3, Acked: 2, Epoch: a.Epoch, Sent: a.Now, Limits: Amounts{600_000, 600}, Held: Amounts{300, 1}, Format: Format,
	})
	if r.Status != Granted || r.Used != (Amounts{14_600, 16}) || r.Format != 1 {
		t.Errorf("%s, used %v, format %d", r.Status, r.Used, r.Format)
	}
}

// TestDigest_Impossible: what no memory can have made is as good as no digest.
func TestDigest_Impossible(t *testing.T) {
	r := DefaultRules()
	good := func() digest {
		return digest{Epoch: 1, Turn: 2, Now: 100_000, Limits: Amounts{1000, 10}, Booked: book{{300, Amounts{5, 1}}, {400, Amounts{5, 1}}}}
	}
	if _, ok := decodeDigest(encoded(good()), r); !ok {
		t.Fatal("a digest is not read")
	}
	for name, change := range map[string]func(d *digest){
		"a time before all times":    func(d *digest) { d.Now = -1 },
		"an epoch beyond all":        func(d *digest) { d.Epoch = 1 << 60 },
		"less than nothing held":     func(d *digest) { d.Held[0] = -5 },
		"more held than can be":      func(d *digest) { d.Held[1] = 1 << 62 },
		"less than nothing used":     func(d *digest) { d.Booked[0].Used[0] = -5 },
		"more used than can be":      func(d *digest) { d.Booked[1].Used[0] = 1 << 62 },
		"slots out of order":         func(d *digest) { d.Booked[0].Slot = 401 },
		"a slot that is there twice": func(d *digest) { d.Booked[0].Slot = 400 },
		"a slot long ago":            func(d *digest) { d.Booked[0].Slot = 100 },
		"a slot far ahead":           func(d *digest) { d.Booked[1].Slot = 5000 },
	} {
		d := good()
		change(&d)
		if _, ok := decodeDigest(encoded(d), r); ok {
			t.Errorf("%s: it is read", name)
		}
	}
	if _, ok := decodeDigest(make([]byte, 1<<20), r); ok {
		t.Error("a megabyte is read")
	}
}

func encoded(d digest) []byte { return d.encode() }

// TestRestored_Bounds: a faulty node that makes up usage cannot take more of a pool than its limit in each Window, and what it
// says of itself cannot make the rest less than nothing.
func TestRestored_Bounds(t *testing.T) {
	rules := DefaultRules()
	a := NewAccount(rules, 1_000_000, Options{})
	d := digest{Epoch: 5, Now: 990_000, Limits: Amounts{100, 10}, Held: Amounts{maxDigested, maxDigested}, Refundable: Amounts{maxDigested}, May: Amounts{maxDigested}}
	for slot := int64(3900); slot < 4000; slot++ {
		d.Booked = append(d.Booked, Booked{slot, Amounts{maxDigested, maxDigested}})
	}
	wild := int64(-1) << 62
	a.Beat(1_000_000, "", 0, &Beat{
		Node: "n", Instance: "n", Join: true, Seq: 1, Limits: Amounts{100, 10},
		Copy: &Copy{Digest: d.encode(), Age: wild, Shift: wild, Held: Amounts{wild, -wild - 1}, May: Amounts{wild}, Refunded: Amounts{-wild - 1}, Refundable: Amounts{wild}},
	})
	a.Now += rules.ttl()
	if !a.restored(0) {
		t.Fatal("it is not restored")
	}
	for _, b := range []book{a.Booked, a.Gone} {
		for _, x := range b {
			if x.Used != within(0, x.Used, 100*101) || x.Used[1] > 10*101 {
				t.Errorf("in slot %d %d count", x.Slot, x.Used)
			}
		}
	}
}

// TestRestored_Age: a digest that is said to be older than all times is as old as can be, so that all may have been granted since.
func TestRestored_Age(t *testing.T) {
	rules := DefaultRules()
	a := NewAccount(rules, 1_000_000, Options{})
	d := digest{Epoch: 5, Now: 990_000, Limits: Amounts{100, 10}, Booked: book{{3960, Amounts{100, 10}}}}
	a.Beat(1_000_000, "", 0, &Beat{
		Node: "n", Instance: "n", Join: true, Seq: 1, Limits: Amounts{100, 10}, Copy: &Copy{Digest: d.encode(), Age: 1<<63 - 1},
	})
	a.Now += rules.ttl()
	if !a.restored(0) {
		t.Fatal("it is not restored")
	}
	if got := a.Booked.at(a.slotOf(a.Now)); got != (Amounts{100, 10}) {
		t.Errorf("%d may have been used since", got)
	}
}

// TestRestored_Raised: a limit that is raised after an account was restored holds a Window later. The others may have used the
// difference before, if the node that told had not heard of it.
func TestRestored_Raised(t *testing.T) {
	s := newForgetful(0)
	f := newFellow("f", s.rules)
	beat := func() {
		s.beat(f)
		s.now = s.now.Add(250 * time.Millisecond)
	}
	beat()
	beat()
	s.forget(0)
	a := s.account
	began := s.now
	for s.now.Before(began.Add(3 * time.Second)) {
		beat()
	}
	if a.limit(0) != 100 || a.Now < a.Learning {
		t.Fatalf("the limit is %d, and it learns until %d", a.limit(0), a.Learning-a.Now)
	}
	f.report.Limits[0] = 300
	for s.now.Before(began.Add(s.rules.TTL + s.rules.Window - time.Second)) {
		beat()
		if got := a.limit(0); got != 100 {
			t.Fatalf("%v after the loss the limit is %d", s.now.Sub(began), got)
		}
	}
	for s.now.Before(began.Add(s.rules.TTL + s.rules.Window + time.Second)) {
		beat()
	}
	if got := a.limit(0); got != 300 {
		t.Errorf("more than a Window after the loss the limit is %d", got)
	}
}

// TestDigest_LateReturn: a digest can be read that is made when the process behind a node's name was replaced long after its grant
// had expired.
func TestDigest_LateReturn(t *testing.T) {
	for _, wait := range []time.Duration{0, time.Second, 59 * time.Second, time.Minute, 61 * time.Second, 62 * time.Second, 2 * time.Minute} {
		r := DefaultRules()
		a := NewAccount(r, 1_000_000, Options{})
		beat := func(at int64, instance string) Reply {
			return a.Beat(at, "", 1, &Beat{Node: "n", Instance: instance, Join: true, Seq: 1, Expect: 1, Limits: Amounts{60_000, 600}, Waiting: Amounts{5000, 5}, Ready: Amounts{1000, 1}})
		}
		beat(1_000_000, "first")
		a.Members["n"].Holding = [axes]Envelope{{Level: 1000, Rate: 1000, Left: 1000}}
		beat(1_000_000+wait.Milliseconds(), "second")
		d := a.digest()
		if _, ok := decodeDigest(d.encode(), r); !ok {
			t.Errorf("after %s: the digest is none of a memory: %+v", wait, d)
		}
	}
}
