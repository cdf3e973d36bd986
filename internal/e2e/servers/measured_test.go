package servers

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/llmgov/llmgov/internal/testkit/processtest"
)

// mostTokens is the most that a call of a flood asks for.
const mostTokens = 50

// flood keeps so many callers of each tenant asking until ctx ends. done is told the tokens of each answer.
func (s *site) flood(ctx context.Context, callers int, tenants map[string]int, done func(tenant string, tokens int)) *sync.WaitGroup {
	var group sync.WaitGroup
	for tenant := range tenants {
		for i := range callers {
			group.Go(func() {
				rnd := rand.New(rand.NewPCG(1, uint64(i)))
				for ctx.Err() == nil {
					tokens := 10 + rnd.IntN(mostTokens-9)
					got := s.call(ctx, "chat/completions", tenant, chat(tokens, true, ""))
					switch {
					case ctx.Err() != nil:
					case got.status == http.StatusOK:
						done(tenant, tokens)
					default:
						s.t.Errorf("%s: %+v", tenant, got)
						return
					}
				}
			})
		}
	}
	return &group
}

// sharesByWeight holds the time for which tenants had slots against their weights, because time is what llmgov shares of slots.
// It only logs the tokens of the answers that they got. These follow the time as far as the server is equally fast all the time:
// while its speed varies, tenants of larger weights get more of the slots when it is fast, and fewer when it is slow.
func sharesByWeight(t *testing.T, r *running) {
	weights := map[string]int{"four": 4, "two": 2, "one": 1}
	s := newSite(t, r, "concurrency: 8", weights)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var counted atomic.Bool
	var got [5]atomic.Int64 // by weight
	callers := s.flood(ctx, 12, weights, func(tenant string, tokens int) {
		if counted.Load() {
			got[weights[tenant]].Add(int64(tokens))
		}
	})
	time.Sleep(10 * time.Second)
	from := time.Now()
	counted.Store(true)
	time.Sleep(*measured)
	counted.Store(false)
	to := time.Now()
	time.Sleep(2 * time.Second) // for the calls that run
	stop()
	callers.Wait()
	s.atRest()
	occupied := s.occupied(from, to)
	all := occupied["four"] + occupied["two"] + occupied["one"]
	sum := got[4].Load() + got[2].Load() + got[1].Load()
	for tenant, weight := range weights {
		due := all * float64(weight) / 7
		t.Logf("%s: %.0f of %.0f s of slots in %s, %.1f %% of what is due", tenant, occupied[tenant], all, *measured, 100*occupied[tenant]/due)
		if math.Abs(occupied[tenant]-due) > 0.02*due+2 { // a call cannot be split
			t.Errorf("%s had slots for %.0f s, %.0f are due", tenant, occupied[tenant], due)
		}
		tokens := float64(got[weight].Load())
		due = float64(sum) * float64(weight) / 7
		t.Logf("%s: %.0f of %d tokens, %.1f %% of its part by weight", tenant, tokens, sum, 100*tokens/due)
	}
}

// occupied is for how many seconds tenants had slots in a stretch of time, by llmgov's log of calls that came to their end.
func (s *site) occupied(from, to time.Time) map[string]float64 {
	seconds := map[string]float64{}
	for text := range strings.Lines(s.gov.Log()) {
		line := gjson.Parse(text)
		if line.Get("outcome").String() != "ok" {
			continue
		}
		ran := line.Get("duration_ms").Float() - line.Get("queue_ms").Float()
		ended := line.Get("time").Time()
		began := ended.Add(-time.Duration(ran * float64(time.Millisecond)))
		if began.Before(from) {
			began = from
		}
		if ended.After(to) {
			ended = to
		}
		if ended.After(began) {
			seconds[line.Get("tenant").String()] += ended.Sub(began).Seconds()
		}
	}
	return seconds
}

// kneeIsFound floods a pool whose limit adapts, and compares what is done with a pool whose limit is the server's.
func kneeIsFound(t *testing.T, r *running) {
	fixed := underFlood(t, r, fmt.Sprintf("concurrency: %d", slots))
	found := underFlood(t, r, "concurrency: {adaptive: gradient, min: 2, max: 64}")
	t.Logf("%d slots: %s; adaptive: %s", slots, fixed, found)
	if found.limit < 0.75*slots || found.limit > 1.25*slots {
		t.Errorf("the limit is %.1f in the mean, the server has %d slots", found.limit, slots)
	}
	if found.waiting > slots/4. {
		t.Errorf("%.1f calls wait in the server in the mean", found.waiting)
	}
}

// flooded are means over a flood, once the limit has had time to move.
type flooded struct {
	limit     float64
	running   float64
	waiting   float64
	perSecond float64 // tokens
}

func (f flooded) String() string {
	return fmt.Sprintf("limit %.1f, %.1f run and %.1f wait in the server, %.0f tokens/s", f.limit, f.running, f.waiting, f.perSecond)
}

func underFlood(t *testing.T, r *running, concurrency string) flooded {
	t.Helper()
	s := newSite(t, r, concurrency, map[string]int{"acme": 1})
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	callers := s.flood(ctx, 3*slots, map[string]int{"acme": 1}, func(string, int) {})
	settle := min(*measured, 2*time.Minute) / 2
	time.Sleep(settle)
	var sum flooded
	looks := 0.
	from := time.Now()
	_, before := s.worked()
	for until := from.Add(settle); time.Now().Before(until); time.Sleep(200 * time.Millisecond) {
		now := r.load(t)
		sum.limit += processtest.Sum(s.gov.Scrape(s.t), "llmgov_concurrency_limit", `pool="p"`)
		sum.running += float64(now.running)
		sum.waiting += float64(now.waiting)
		looks++
	}
	_, after := s.worked()
	perSecond := float64(after-before) / time.Since(from).Seconds()
	stop()
	callers.Wait()
	s.atRest()
	return flooded{limit: sum.limit / looks, running: sum.running / looks, waiting: sum.waiting / looks, perSecond: perSecond}
}
