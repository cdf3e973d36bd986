package gateway

import (
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/gateway/dialect"
	"github.com/llmgov/llmgov/internal/gateway/route"
)

// Of all that come at once with one name, exactly one is in; who was not let in ends
// nobody, nor does a second end; and nothing is left.
func TestOngoing_OneAtATime(t *testing.T) {
	var s ongoing
	const names = 8
	var in [names]atomic.Int64
	var let atomic.Int64
	var wg sync.WaitGroup
	for w := range 32 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(w), 1))
			for range 2000 {
				n := rng.IntN(names)
				a := &ongoingCall{name: ongoingName{fmt.Sprint(n / 2), fmt.Sprint(n % 2)}, asks: uint64(n)}
				first := s.begin(a)
				if first == nil {
					if now := in[n].Add(1); now != 1 {
						t.Errorf("%d are in at once", now)
					}
					let.Add(1)
					runtime.Gosched()
					in[n].Add(-1)
				} else if first.asks != a.asks {
					t.Errorf("%v is in the way of %v", first.name, a.name)
				}
				s.end(a)
				s.end(a)
				s.end(nil)
			}
		})
	}
	wg.Wait()
	if len(s.byName) != 0 || let.Load() < names {
		t.Errorf("%d are left, %d were let in", len(s.byName), let.Load())
	}
}

// Two tries of one call ask the same, also where each draws the boundary of its form
// anew; all else is another call.
func TestAsks(t *testing.T) {
	ask := func(method, target, contentType, body string) uint64 {
		r := httptest.NewRequest(method, target, strings.NewReader(body))
		r.Header.Set("Content-Type", contentType)
		c := &call{r: r, body: []byte(body)}
		c.at = route.Find(r)
		c.route = c.at.Route
		if c.route.Body == dialect.Form {
			if f := c.readHead(); f != nil {
				t.Fatal(f.Message)
			}
		}
		return c.asks()
	}
	form := func(boundary, text string) uint64 {
		return ask("POST", "/v1/audio/transcriptions", "multipart/form-data; boundary="+boundary,
			"--"+boundary+"\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\n"+text+"\r\n--"+boundary+"--\r\n")
	}
	first := ask("POST", "/v1/embeddings", "", `{"a":1}`)
	if ask("POST", "/embeddings", "", `{"a":1}`) != first || form("x", "m") != form("yy", "m") {
		t.Error("a second try asks for something else")
	}
	for i, other := range []uint64{
		ask("POST", "/v1/embeddings", "", `{"a":2}`),
		ask("POST", "/v1/embeddings?a=1", "", `{"a":1}`),
		ask("POST", "/v1/moderations", "", `{"a":1}`),
		ask("POST", "/v1/embeddings", "", ``),
	} {
		if other == first {
			t.Errorf("another call, %d, asks the same", i)
		}
	}
	if form("x", "m") == form("x", "n") {
		t.Error("another form asks the same")
	}
}

// Calls without a key, which are nearly all, pay nothing for those that have one.
//
// Catches: a lease that is moved to the heap before it is known whether anybody keeps it.
func TestNoAttemptAllocatesNothing(t *testing.T) {
	var none *ongoingCall
	var lease governor.Lease
	if n := testing.AllocsPerRun(100, func() { none.runs(lease) }); n != 0 {
		t.Errorf("a call without an Idempotency-Key makes %v allocations for it", n)
	}
}
