package redis

import (
	"context"
	"fmt"
	"testing"

	"github.com/llmgov/llmgov/federation/parts"
	"github.com/llmgov/llmgov/internal/testkit/redistest"
)

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
				if _, err := s.Share(context.Background(), []*parts.Beat{beat}); err != nil {
					b.Fatal(err)
				}
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
