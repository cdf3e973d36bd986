package redis

import (
	gocmp "cmp"
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/llmgov/llmgov/federation"
	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/internal/test/testkit/redistest"
	"github.com/llmgov/llmgov/internal/test/testkit/storetest"
)

// TestSame: whatever beats come, the scripts answer what an Account does, and show the same.
// The beats are what nodes never say as well: what is negative, too much, or out of the Window.
func TestSame(t *testing.T) {
	t.Parallel()
	server := redistest.New(t)
	short := federation.Rules{Window: time.Second, Slots: 8, Beat: 100 * time.Millisecond, TTL: 260 * time.Millisecond}
	var stores []*Store
	all := []federation.Rules{short, federation.DefaultRules()}
	for _, r := range all {
		s := openBy(t, server.URL(), r, func(string) {})
		s.use(saidServer, saidClock)
		stores = append(stores, s)
	}
	n := 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		i := rapid.IntRange(0, len(all)-1).Draw(t, "rules")
		w := &world{s: stores[i], rules: all[i], pool: fmt.Sprint("p", n), now: rapid.Int64Range(100_000, 200_000).Draw(t, "begin"), incarnation: "first", processes: map[string]*process{}, lives: map[string]int{}, digests: storetest.Digests{}}
		w.names = names[:rapid.SampledFrom([]int{1, 2, 3, len(names)}).Draw(t, "nodes")]
		w.wild = rapid.IntRange(0, 3).Draw(t, "wild") == 0
		w.expect = rapid.SampledFrom([]int{0, 1, 1, 1, 2}).Draw(t, "expect")
		w.limits = federation.Amounts{rapid.SampledFrom([]int64{100, 60_000, 1e9, 1e11}).Draw(t, "limit"), 0}
		w.limits[1] = rapid.SampledFrom([]int64{0, w.limits[0] / 100}).Draw(t, "other limit")
		for range rapid.IntRange(1, 40).Draw(t, "beats") {
			w.step(t)
		}
	})
}

// world is a store and an account that are told the same.
type world struct {
	s           *Store
	rules       federation.Rules
	pool        string
	now         int64
	incarnation string
	oracle      *federation.Account

	wild      bool // whether nodes say what they never do
	expect    int
	limits    federation.Amounts
	names     []string
	lives     map[string]int
	processes map[string]*process
	sent      []*federation.Beat
	digests   storetest.Digests
}

// process is what one knows of itself.
type process struct {
	seq, acked, epoch, joined, sent int64
	told                            bool // all
	holding                         [2]federation.Envelope
	digest                          []byte
	known                           int64 // of which epoch that is
	booked                          []federation.Booked
}

// names are in another order by their bytes than by what people think.
var names = []string{"a", "B", "b", "ä", "a-", "a1", "Z", "z"}

func (w *world) step(t *rapid.T) {
	ttl := w.rules.TTL.Milliseconds()
	window := w.rules.Window.Milliseconds()
	switch rapid.IntRange(0, 60).Draw(t, "what") {
	case 0:
		w.incarnation += "x"
	case 1:
		w.now += window + 2*ttl
	case 2:
		w.now += 4 * window
	case 3:
		w.now -= ttl
	case 4, 5:
		if len(w.sent) > 0 {
			w.tell(t, rapid.SampledFrom(w.sent).Draw(t, "again"))
			return
		}
	case 6, 7, 8, 9:
		w.now += ttl
	}
	w.now += rapid.Int64Range(0, ttl/3).Draw(t, "ms")
	b := w.beat(t)
	w.took(b, w.tell(t, b))
}

// tell compares the answers to a beat, and all that there is to see after it.
func (w *world) tell(t *rapid.T, b *federation.Beat) federation.Reply {
	ctx := context.Background()
	testkit.OK(t, w.s.client.HSet(ctx, "said", "now", w.now, "incarnation", w.incarnation).Err())
	if w.oracle == nil {
		w.oracle = federation.NewAccount(w.rules, w.now, federation.Options{Incarnation: w.incarnation})
	}
	want := w.oracle.Beat(w.now, w.incarnation, b.Expect, b)
	got := testkit.Must(w.s.Beat(ctx, w.pool, w.digests.Told(b)))(t)
	if diff := cmp.Diff(storetest.Text(want), storetest.Text(got)); diff != "" {
		t.Fatalf("%s (- want, + got):\n%s", storetest.Text(b), diff)
	}
	if err := w.digests.Pair(want, got); err != nil {
		t.Fatalf("%s: %v", storetest.Text(b), err)
	}
	look := testkit.Must(w.s.Look(ctx, w.pool))(t)
	if diff := cmp.Diff(storetest.Text(w.oracle.View(w.now)), storetest.Text(look)); diff != "" {
		t.Fatalf("the view after %s (- want, + got):\n%s", storetest.Text(b), diff)
	}
	if n := w.s.client.HLen(ctx, key(w.pool)).Val(); n != int64(4+5*len(w.oracle.Members)+copies(w.oracle)) {
		t.Fatalf("of %d members, and %d copies, %d fields are kept", len(w.oracle.Members), copies(w.oracle), n)
	}
	w.sent = append(w.sent, b)
	return want
}

// copies is how many members' copies of the memory before are kept.
func copies(a *federation.Account) (n int) {
	for _, m := range a.Members {
		if m.Copy != nil {
			n++
		}
	}
	return n
}

// took takes in an answer, as a node does.
func (w *world) took(b *federation.Beat, r federation.Reply) {
	p := w.processes[b.Node+" "+b.Instance]
	switch r.Status {
	case federation.Granted, federation.Learning:
		if p.acked == 0 {
			p.joined = r.Now
		}
		p.acked = r.Seq
		p.epoch = r.Epoch
		p.sent = r.Now
		p.told = true
		p.holding = r.Grant
		if r.Digest != nil {
			p.digest = r.Digest
			p.known = r.Epoch
		}
	case federation.Resend:
		p.epoch = r.Epoch
		p.sent = r.Now
		p.told = false
	}
}

// amount draws one up to most; or, where nodes are wild, what cannot be.
func (w *world) amount(t *rapid.T, most int64, label string) int64 {
	if w.wild {
		switch rapid.IntRange(0, 30).Draw(t, "of "+label) {
		case 0:
			return -rapid.Int64Range(1, most).Draw(t, label)
		case 1:
			return 2e12
		}
	}
	return rapid.Int64Range(0, most).Draw(t, label)
}

// amounts draws a part of the limits, one in so many at most.
func (w *world) amounts(t *rapid.T, part int64, label string) federation.Amounts {
	return federation.Amounts{w.amount(t, w.limits[0]/part+1, label), w.amount(t, w.limits[1]/part+1, label)}
}

func (w *world) beat(t *rapid.T) *federation.Beat {
	node := rapid.SampledFrom(w.names).Draw(t, "node")
	life := w.lives[node]
	switch rapid.IntRange(0, 20).Draw(t, "process") {
	case 0, 1:
		w.lives[node]++ // it is started again
		life++
	case 2:
		life = max(0, life-1) // the one before is still there
	}
	b := &federation.Beat{
		Node: node, Region: "r", Address: rapid.SampledFrom([]string{"", "10.0.0.7:9090"}).Draw(t, "address"), Instance: fmt.Sprint(life),
		Format: rapid.IntRange(0, 3).Draw(t, "format"), Expect: w.expect, Limits: w.limits, Burst: w.amounts(t, 6, "burst"),
	}
	p := w.processes[b.Node+" "+b.Instance]
	if p == nil {
		p = &process{}
		w.processes[b.Node+" "+b.Instance] = p
	}
	p.seq++
	b.Seq = p.seq
	b.Acked = p.acked
	b.Epoch = p.epoch
	b.Join = p.acked == 0
	b.Full = !p.told
	b.Waiting, b.Ready = w.amounts(t, 1, "waiting"), w.amounts(t, 50, "ready")
	if !b.Join {
		b.Sent = p.sent + rapid.Int64Range(0, max(0, w.now-p.sent)).Draw(t, "sent")
		b.Joined = p.joined
		b.Holding = p.holding
		w.used(t, b)
		b.Refundable = w.amounts(t, 20, "refundable")
		w.copied(t, p, b)
		p.booked = b.Booked
	}
	if w.wild || rapid.IntRange(0, 20).Draw(t, "odd") == 0 {
		w.odd(t, b)
	}
	w.asks(t, b)
	return b
}

// copied draws what a process tells of the memory before.
func (w *world) copied(t *rapid.T, p *process, b *federation.Beat) {
	if !b.Full || p.digest == nil || p.known == b.Epoch && rapid.IntRange(0, 20).Draw(t, "of its own memory") > 0 {
		return
	}
	ttl := w.rules.TTL.Milliseconds()
	b.Copy = &federation.Copy{
		Digest: p.digest, Age: rapid.Int64Range(0, 2*ttl).Draw(t, "age"), Shift: rapid.Int64Range(-ttl, ttl).Draw(t, "shift"),
		Booked: p.booked, Held: w.amounts(t, 50, "held by then"), May: w.amounts(t, 50, "may by then"),
		Refundable: w.amounts(t, 50, "refundable by then"), Refunded: w.amounts(t, 50, "refunded"),
	}
	if rapid.IntRange(0, 2).Draw(t, "former") == 0 {
		w.journaled(t, b.Copy)
	}
}

// journaled draws what a process tells of an earlier one.
func (w *world) journaled(t *rapid.T, c *federation.Copy) {
	window := w.rules.Window.Milliseconds()
	c.Former = true
	c.Age = rapid.Int64Range(0, window).Draw(t, "age of the journal")
	c.Journal = &federation.Journal{Joined: w.now - rapid.Int64Range(0, 3*window).Draw(t, "joined before")}
	for range rapid.IntRange(0, 3).Draw(t, "journaled slots") {
		slot := w.now*w.rules.Slots/window + rapid.Int64Range(-w.rules.Slots-2, 3).Draw(t, "journaled slot")
		c.Journal.Booked = append(c.Journal.Booked, federation.Booked{Slot: slot, Used: w.amounts(t, 30, "journaled")})
	}
}

// used draws what a node has used, and will.
func (w *world) used(t *rapid.T, b *federation.Beat) {
	slot := w.rules.Window.Milliseconds() / w.rules.Slots
	b.Past, b.Held = w.now/slot+rapid.Int64Range(-1, 2).Draw(t, "past"), w.amounts(t, 50, "held")
	for i := range rapid.IntRange(0, 4).Draw(t, "recent slots") {
		b.Booked = append(b.Booked, federation.Booked{Slot: w.now/slot + 2 - int64(i), Used: w.amounts(t, 4*w.rules.Slots, "used")})
	}
	for range rapid.IntRange(0, 3).Draw(t, "slots") {
		at := w.now/slot + rapid.Int64Range(-w.rules.Slots-2, 2*w.rules.Slots+8).Draw(t, "slot")
		b.Booked = append(b.Booked, federation.Booked{Slot: at, Used: w.amounts(t, 30, "used")})
	}
	if left := rapid.IntRange(0, 3).Draw(t, "left"); left < 3 {
		for k := range b.Holding {
			b.Holding[k].Level = b.Holding[k].Level * int64(left) / 2
		}
	}
}

// odd makes a beat say what is seldom said.
func (w *world) odd(t *rapid.T, b *federation.Beat) {
	often := func(label string) bool { return rapid.IntRange(0, 6).Draw(t, label) == 0 }
	if often("joins again") {
		b.Join = !b.Join
	}
	if often("tells all") {
		b.Full = !b.Full
	}
	if often("was answered") {
		b.Acked += 3
	}
	if often("another epoch") {
		b.Epoch--
	}
	if often("another limit") {
		b.Limits = w.amounts(t, 1, "limit")
	}
	if often("withholds") {
		b.Reserve = w.amounts(t, 2, "reserve")
	}
	if often("another time") {
		b.Sent = w.now - w.amount(t, w.rules.TTL.Milliseconds(), "sent")
		b.Joined = w.now - w.amount(t, 3*w.rules.Window.Milliseconds(), "joined")
	}
	if often("another past") {
		b.Past += rapid.Int64Range(-5, 5+3*w.rules.Slots).Draw(t, "past")
	}
	b.Parts = federation.Amounts{w.amount(t, w.rules.Window.Milliseconds(), "parts"), w.amount(t, w.rules.Window.Milliseconds(), "parts")}
	if often("holds") {
		b.Holding[0] = federation.Envelope{
			Level: w.amount(t, w.limits[0], "level") - w.limits[0]/2, Rate: w.amount(t, w.limits[0], "rate"),
			Left: w.amount(t, 2*w.rules.TTL.Milliseconds(), "left"),
		}
	}
}

// leastLevel is far below any use by any weight. From it on no curve rises faster than floats can tell.
const leastLevel = 1e-200

// asks draws who asks for what.
func (w *world) asks(t *rapid.T, b *federation.Beat) {
	scale := float64(w.limits[0])
	for range rapid.IntRange(0, 12).Draw(t, "points") {
		b.Curve = append(b.Curve, federation.Point{
			Level: max(leastLevel, rapid.Float64Range(0, 1e6).Draw(t, "level")),
			Use:   [2]float64{rapid.Float64Range(0, scale).Draw(t, "tokens"), rapid.Float64Range(0, scale/100).Draw(t, "requests")},
		})
	}
	slices.SortFunc(b.Curve, func(x, y federation.Point) int { return gocmp.Compare(x.Level, y.Level) })
	paths := []string{"a", "g/a", "g/b", "gg/a", "ü/x y", "g"}
	for range rapid.IntRange(0, 4).Draw(t, "demands") {
		b.Demands = append(b.Demands, federation.Demand{Path: rapid.SampledFrom(paths).Draw(t, "path"), Rate: rapid.Int64Range(-1, 1e12).Draw(t, "rate")})
	}
	for range rapid.IntRange(0, 2).Draw(t, "groups") {
		b.Under = append(b.Under, rapid.SampledFrom([]string{"g", "gg", "ü"}).Draw(t, "under"))
	}
}
