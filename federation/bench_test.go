package federation

import (
	"fmt"
	"testing"

	"github.com/llmgov/llmgov/internal/test/testkit"
)

// BenchmarkBeat is what one beat costs an account of so many nodes that all beat once a
// second, each asked for twice its part by 20 tenants; and what it costs a store besides that has
// to read and write the whole of it.
func BenchmarkBeat(b *testing.B) {
	for _, nodes := range []int{8, 64, 250, 1000} {
		b.Run(fmt.Sprint(nodes, " nodes"), func(b *testing.B) {
			f := fullAccount(b, nodes)
			for b.Loop() {
				f.beat()
			}
		})
		b.Run(fmt.Sprint(nodes, " nodes, kept"), func(b *testing.B) {
			f := fullAccount(b, nodes)
			for b.Loop() {
				kept := testkit.Must(f.account.Encode())(b)
				f.account = testkit.Must(Decode(kept, f.account.Rules))(b)
			}
		})
	}
}

// benchFleet are nodes that beat in turn.
type benchFleet struct {
	b        *testing.B
	account  *Account
	nodes, n int
	now      int64
}

// fullAccount is one that all nodes have told of a Window.
func fullAccount(b *testing.B, nodes int) *benchFleet {
	now := int64(1_700_000_000_000)
	f := &benchFleet{b, NewAccount(DefaultRules(), now, Options{Fresh: true}), nodes, 0, now}
	for range 2 * nodes {
		f.beat()
	}
	return f
}

func (f *benchFleet) beat() {
	i := f.n % f.nodes
	seq := int64(f.n/f.nodes + 1)
	nodes := int64(f.nodes)
	now := f.now + int64(f.n)*1000/nodes
	f.n++
	m := &Beat{
		Node: fmt.Sprint("n", i), Instance: fmt.Sprint("i", i), Join: seq == 1, Full: seq <= 2, Seq: seq, Acked: seq - 1, Epoch: f.account.Epoch,
		Limits: Amounts{600_000 * nodes, 600 * nodes}, Burst: Amounts{100_000 * nodes, 100 * nodes}, Sent: now, Joined: now - 100_000,
		Waiting: Amounts{1000, 1}, Ready: Amounts{1000, 1},
	}
	slots := int64(4)
	if m.Full {
		slots = 240
	}
	for slot := range slots {
		m.Booked = append(m.Booked, Booked{now/250 - slot, Amounts{2000, 2}})
	}
	for p := range 64 {
		m.Curve = append(m.Curve, Point{float64(p*p+1) * float64(10_000+10*i), [2]float64{float64(p+1) * 18_750, float64(p+1) * 15}})
	}
	for t := range 20 {
		m.Demands = append(m.Demands, Demand{fmt.Sprint("t", t), int64(100 + f.n)})
	}
	if r := f.account.Beat(now, "", 0, m); r.Status != Granted {
		f.b.Fatal(r)
	}
}
