package redis

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/llmgov/llmgov/federation"
	"github.com/llmgov/llmgov/federation/parts"
	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/internal/test/testkit/redistest"
)

// BenchmarkBeat: what a beat takes of the server's processor, in microseconds, of a pool whose
// limit is asked for twice over.
func BenchmarkBeat(b *testing.B) {
	server := redistest.New(b)
	s := open(b, server.URL())
	s.use(saidServer, saidClock)
	for _, x := range []struct{ nodes, tenants int }{{4, 100}, {4, 4096}, {8, 100}, {64, 100}, {250, 100}, {1000, 100}} {
		b.Run(fmt.Sprintf("%dx%d", x.nodes, x.tenants), func(b *testing.B) {
			f := newFleet(b, s, x.nodes, x.tenants)
			before := cpu(b, s)
			for b.Loop() {
				f.beat()
			}
			b.ReportMetric((cpu(b, s)-before)/float64(b.N), "redis-µs/op")
			const looks = 20
			before = cpu(b, s)
			for range looks {
				testkit.Must(s.Look(context.Background(), f.pool))(b)
			}
			b.ReportMetric((cpu(b, s)-before)/looks, "look-µs/op")
		})
	}
}

// cpu is how many microseconds the server has worked, whatever else the machine does.
func cpu(b *testing.B, s *Store) (us float64) {
	info := fmt.Sprint(do(b, s, "INFO", "cpu"))
	for _, field := range []string{"used_cpu_user:", "used_cpu_sys:"} {
		_, after, _ := strings.Cut(info, field)
		number, _, _ := strings.Cut(after, "\r")
		seconds := testkit.Must(strconv.ParseFloat(number, 64))(b)
		us += seconds * 1e6
	}
	return us
}

// fleet beats for many nodes of one pool.
type fleet struct {
	b       *testing.B
	s       *Store
	pool    string
	n       int
	tenants int
	replies []federation.Reply
	seqs    []int64
	joined  []int64
}

// newFleet joins them, and lets each tell of a Window, and have some grants.
func newFleet(b *testing.B, s *Store, nodes, tenants int) *fleet {
	f := &fleet{b: b, s: s, pool: b.Name(), tenants: tenants, replies: make([]federation.Reply, nodes), seqs: make([]int64, nodes), joined: make([]int64, nodes)}
	for range 6 * nodes {
		f.beat()
	}
	if f.replies[nodes-1].Status != federation.Granted {
		b.Fatalf("%+v", f.replies[nodes-1])
	}
	return f
}

func (f *fleet) beat() {
	i := f.n % len(f.replies)
	f.n++
	name := fmt.Sprint("node-", i)
	last := f.replies[i]
	x := join(name)
	nodes := int64(len(f.replies))
	x.Limits = federation.Amounts{600_000 * nodes, 600 * nodes}
	x.Burst = federation.Amounts{100_000 * nodes, 100 * nodes}
	x.Expect = len(f.replies)
	x.Seq = f.seqs[i] + 1
	x.Acked = f.seqs[i]
	x.Epoch = last.Epoch
	x.Holding = last.Grant
	f.seqs[i]++
	slots := int64(4)
	x.Join = x.Seq == 1
	x.Full = x.Seq <= 2
	if x.Full {
		slots = 240
	}
	now := last.Now / 250
	if !x.Join {
		x.Sent = last.Now
		x.Joined = f.joined[i]
		x.Past = now + 1
		for slot := range slots {
			x.Booked = append(x.Booked, federation.Booked{Slot: now + 1 - slot, Used: federation.Amounts{2000, 2}})
		}
	}
	asked := 1 + 0.1*math.Sin(float64(f.n)/float64(len(f.replies))) // it goes up and down in seconds
	for p := range 64 {
		x.Curve = append(x.Curve, federation.Point{Level: float64(p*p+1) * float64(10_000+10*i), Use: [2]float64{asked * float64(p+1) * 18_750, asked * float64(p+1) * 15}})
	}
	for t := range f.tenants {
		x.Demands = append(x.Demands, federation.Demand{Path: fmt.Sprint("tier/tenant-", t), Rate: int64(f.n + t)})
	}
	x.Under = []string{"tier"}
	do(f.b, f.s, "HSET", "said", "now", 1e9+f.n*1000/len(f.replies), "incarnation", "x")
	reply := testkit.Must(f.s.Beat(context.Background(), f.pool, x))(f.b)
	f.replies[i] = reply
	if x.Join {
		f.joined[i] = reply.Now
	}
}

// BenchmarkBudget: what a beat of a pool's budget takes of the server's processor, in microseconds, at so many
// gateways and tenants that have used of it, so many of whom the beat tells of.
func BenchmarkBudget(b *testing.B) {
	server := redistest.New(b)
	s := open(b, server.URL())
	s.use(saidServer, saidClock)
	do(b, s, "HSET", "said", "now", 1_000_000)
	for _, x := range []struct{ gateways, tenants, told int }{{4, 10, 10}, {4, 100, 100}, {3, 1000, 100}, {3, 1000, 1000}, {8, 1000, 100}, {8, 1000, 1000}} {
		b.Run(fmt.Sprintf("%dx%d/%d", x.gateways, x.tenants, x.told), func(b *testing.B) {
			seq := int64(0)
			beat := func(gateway, tenants int) {
				seq++
				beat := &parts.Beat{Owner: b.Name(), Instance: fmt.Sprint("gateway ", gateway), Seq: seq}
				for n := range tenants {
					name := fmt.Sprintf("requests per month 949363200 of tenant-%05d", n)
					beat.Claims = append(beat.Claims, parts.Claim{Name: name, Kind: parts.Period, Limit: 1e6, Ends: 1e9, Used: 5, Want: 9})
				}
				testkit.Must(s.Share(context.Background(), []*parts.Beat{beat}))(b)
			}
			for gateway := range x.gateways {
				beat(gateway, x.tenants)
			}
			before := cpu(b, s)
			n := 0
			for b.Loop() {
				beat(n%x.gateways, x.told)
				n++
			}
			b.ReportMetric((cpu(b, s)-before)/float64(n), "redis-µs/beat")
		})
	}
}
