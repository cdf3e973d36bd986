package federation

import (
	"fmt"
	"testing"
)

// BenchmarkBeat is what one beat costs an account of so many nodes that all beat once a
// second, each asked for 20 tenants.
func BenchmarkBeat(b *testing.B) {
	for _, nodes := range []int{4, 100, 1000} {
		b.Run(fmt.Sprint(nodes, " nodes"), func(b *testing.B) {
			now := int64(1_700_000_000_000)
			a := NewAccount(DefaultRules(), now, Options{Fresh: true})
			seq := int64(1)
			beat := func(i int) {
				m := &Beat{
					Node: fmt.Sprint("n", i), Instance: fmt.Sprint("i", i), Join: seq == 1, Full: seq == 1, Seq: seq, Acked: seq - 1, Epoch: a.Epoch,
					Limits: Amounts{6_000_000, 6000}, Burst: Amounts{100_000, 100}, Sent: now, Joined: now - 100_000,
					Waiting: Amounts{1000, 1}, Largest: Amounts{1000, 1},
					Booked: []Booked{{now / 250, Amounts{100, 1}}, {now/250 - 1, Amounts{100, 1}}},
					Curve:  []Point{{1000, [2]float64{1000, 1}}, {500_000, [2]float64{6_000_000 / float64(nodes), 100}}},
				}
				for t := range 20 {
					m.Demands = append(m.Demands, Demand{fmt.Sprint("t", t), 100})
				}
				if r := a.Beat(now, "", 0, m); r.Status != Granted {
					b.Fatal(r)
				}
			}
			for i := range nodes {
				beat(i)
			}
			for i := range b.N {
				if i%nodes == 0 {
					seq++
					now += 1000
				}
				beat(i % nodes)
			}
		})
	}
}
