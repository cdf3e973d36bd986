package redis

import (
	"context"
	"fmt"
	"testing"

	"github.com/llmgov/llmgov/federation/parts"
	"github.com/llmgov/llmgov/internal/testkit/redistest"
)

// BenchmarkAsk: what a call that asks takes of the server's processor, in microseconds: of a team and
// its tenant with five limits each, at so many gateways that have been busy for all of the last minute.
func BenchmarkAsk(b *testing.B) {
	server := redistest.New(b)
	s := open(b, server.URL())
	s.use(saidServer, saidClock)
	for _, gateways := range []int{1, 4, 16} {
		b.Run(fmt.Sprint(gateways), func(b *testing.B) {
			used := make([]int64, gateways)
			seq := int64(0)
			owners := []string{b.Name() + "/team", b.Name()}
			ask := func(i int) {
				q := &parts.Ask{Calls: []parts.Call{nil}}
				for at, owner := range owners {
					beat := &parts.Beat{Owner: owner, Instance: fmt.Sprint("gateway ", i), Seq: seq, Timed: true}
					for k, name := range []string{"requests", "tokens", "input_tokens", "output_tokens", "concurrency"} {
						c := parts.Claim{Name: name, Kind: parts.Rolling, Limit: 1e12, Used: used[i], Want: used[i]}
						if name == "concurrency" {
							c.Kind = parts.Slots
							c.Used = 3
							c.Want = 3
						}
						beat.Claims = append(beat.Claims, c)
						q.Calls[0] = append(q.Calls[0], parts.Take{Beat: at, Claim: k, Amount: 1})
					}
					q.Beats = append(q.Beats, beat)
				}
				if ans, err := s.Ask(context.Background(), q); err != nil || !ans.Verdicts[0].In {
					b.Fatal(ans, err)
				}
				used[i]++
			}
			now := int64(1e12)
			for range 61 { // seconds
				now += 1000
				do(b, s, "HSET", "said", "now", now)
				seq++
				for i := range gateways {
					used[i] += 2
					ask(i)
				}
			}
			before := cpu(b, s)
			n := 0
			for b.Loop() {
				seq++
				n++
				ask(n % gateways)
			}
			b.ReportMetric((cpu(b, s)-before)/float64(n), "redis-µs/ask")
		})
	}
}
