package storetest

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"

	"github.com/llmgov/llmgov/federation"
)

// Text is the form of a value for comparisons: empty and missing lists are equal.
func Text(v any) string {
	if r, ok := v.(federation.Reply); ok && len(r.Totals) == 0 {
		r.Totals = nil
		v = r
	}
	b, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		panic(err)
	}
	return string(b)
}

// node makes beats as a process does, or as a faulty one does.
type node struct {
	name, region string
	life         int // processes of this name so far
	rules        federation.Rules
	format       int
	rng          *rand.Rand

	joined     bool
	full       bool
	seq, acked int64
	epoch      int64
	first      int64 // answer, by the store's clock
	store      int64 // its clock as of the last answer
	holding    [2]federation.Envelope
	last       *federation.Beat
	digest     []byte // of the memory of the epoch known
	known      int64
	limit      int64
	expect     int
}

func newNode(name string, h Harness, seed uint64) *node {
	return &node{name: name, region: "r-" + name, rules: h.Rules, format: h.Format, full: true, rng: rand.New(rand.NewPCG(seed, 9)), limit: 600_000}
}

// restart makes it another process under the same name.
func (n *node) restart() {
	*n = node{name: n.name, region: n.region, life: n.life + 1, rules: n.rules, format: n.format, full: true, rng: n.rng, limit: n.limit, expect: n.expect}
}

// next is the next beat.
func (n *node) next() *federation.Beat {
	n.seq++
	b := &federation.Beat{
		Node: n.name, Region: n.region, Address: n.name + ":9090", Instance: fmt.Sprint(n.name, n.life),
		Join: !n.joined, Seq: n.seq, Acked: n.acked, Epoch: n.epoch, Full: n.full, Expect: n.expect, Format: n.format,
		Limits: federation.Amounts{n.limit, 0}, Burst: federation.Amounts{n.limit / 6, 0},
		Waiting: federation.Amounts{n.rng.Int64N(20_000), 3}, Ready: federation.Amounts{2000, 1},
	}
	if n.joined {
		b.Sent = n.store
		b.Joined = n.first
		b.Holding = n.holding
		b.Held = federation.Amounts{n.rng.Int64N(1000), 0}
		b.Refundable = federation.Amounts{n.rng.Int64N(300), n.rng.Int64N(3)}
		b.Parts = federation.Amounts{n.rng.Int64N(n.rules.Window.Milliseconds()), 0}
		slot := n.store / (n.rules.Window.Milliseconds() / n.rules.Slots)
		for i := range int64(n.rng.IntN(4)) {
			b.Booked = append(b.Booked, federation.Booked{Slot: slot - i, Used: federation.Amounts{n.rng.Int64N(900), 1}})
		}
	}
	if n.full && n.digest != nil && n.known != n.epoch {
		b.Copy = n.copy()
	}
	b.Curve = []federation.Point{
		{Level: 1000 * n.rng.Float64(), Use: [2]float64{1000, 1}},
		{Level: 500_000, Use: [2]float64{float64(n.rng.IntN(600_000)), 100}},
	}
	b.Demands = []federation.Demand{{Path: "a", Rate: n.rng.Int64N(1000)}, {Path: "g/" + n.name, Rate: 7}}
	b.Under = []string{"g"}
	n.last = b
	return b
}

// copy is what it tells of the memory before: that the digest contains about what it told last.
func (n *node) copy() *federation.Copy {
	c := &federation.Copy{
		Digest: n.digest, Age: n.rng.Int64N(3000), Shift: n.rng.Int64N(600) - 300,
		Booked: n.last.Booked, Held: n.last.Held, Refundable: n.last.Refundable,
	}
	if n.rng.IntN(2) == 0 {
		c.Refunded = federation.Amounts{n.rng.Int64N(100), 1}
		c.May = federation.Amounts{n.rng.Int64N(1000), 1}
	}
	return c
}

// took records the answer to the last beat.
func (n *node) took(r federation.Reply) {
	switch r.Status {
	case federation.Granted, federation.Learning:
		if !n.joined {
			n.first = r.Now
		}
		n.joined = true
		n.full = false
		n.acked = r.Seq
		n.epoch = r.Epoch
		n.store = r.Now
		n.holding = r.Grant
		if r.Digest != nil {
			n.digest = r.Digest
			n.known = r.Epoch
		}
	case federation.Resend:
		n.full = true
		n.epoch = r.Epoch
		n.store = r.Now
	}
}
