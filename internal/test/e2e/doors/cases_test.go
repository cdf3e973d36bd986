package doors

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/llmgov/llmgov/governor/client"
	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/internal/test/testkit/processtest"
)

// kase is a promise that is kept by every door.
type kase struct {
	name  string
	title string // in the table
	run   func(*testing.T, *Door)
}

var cases = []kase{
	{"budget", "a budget of 10, 50 calls at once: 10 reach the model server", budgetOfTen},
	{"shares", "weights 4 : 2 : 1 get shares of 4 : 2 : 1, within 3 %", sharesByWeight},
	{"concurrency", "of 40 calls at once exactly 5 run", concurrencyIsExact},
	{"ends", "1,000 calls that end in any way: no lease stays, charged = produced", randomEnds},
	{"refusal", "a refusal has status, code, rate headers and a time to come back", refusalSaysAll},
	{"caller", "a caller that is killed in mid-stream frees its lease at once", callerIsKilled},
	{"llmgov", "llmgov is killed in mid-call", llmgovIsKilled},
}

// chat is the body of a call that takes so many tokens of output. The hook is of the model server.
func chat(output int, stream bool, hook string) string {
	usage := ""
	if stream {
		usage = `"stream_options":{"include_usage":true},`
	}
	if hook != "" {
		hook = `,"mock":{` + hook + `}`
	}
	return fmt.Sprintf(`{"model":"gpt-4o","user":"ann","max_tokens":%d,"stream":%t,%s"messages":[{"role":"user","content":"How long is a piece of string?"}]%s}`, output, stream, usage, hook)
}

// said is an answer that was read to its end, or a refusal.
type said struct {
	status int
	code   string
	header http.Header
	body   string
	err    error // of a call without an answer, or that broke off
}

// call makes a call and reads its answer.
func call(ctx context.Context, post Post, tenant, body string) said {
	resp, err := post(ctx, tenant, body)
	if r, ok := errors.AsType[*client.Refusal](err); ok {
		return said{status: r.Status, code: string(r.Code), header: r.Header, body: r.Message}
	}
	if err != nil {
		return said{err: err}
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	out := said{status: resp.StatusCode, header: resp.Header, body: string(text), err: err}
	for _, code := range []string{"rate_limit_exceeded", "insufficient_quota", "invalid_api_key", "tenant_blocked"} {
		if resp.StatusCode >= 400 && strings.Contains(out.body, code) {
			out.code = code
		}
	}
	return out
}

// atOnce makes n calls at the same time, and counts their statuses. 0 is a call without an answer.
func atOnce(ctx context.Context, n int, make func(i int) said) map[int]int {
	var mu sync.Mutex
	statuses := map[int]int{}
	testkit.AtOnce(n, func(i int) {
		s := make(i)
		mu.Lock()
		defer mu.Unlock()
		statuses[s.status]++
	})
	return statuses
}

func budgetOfTen(t *testing.T, d *Door) {
	ten := "budgets: [{requests: 10, per: month}]"
	s := newSite(t, "tpm: 100000000", map[string]string{"ten": ten, "each": "members: {by: body.user, each: {" + ten + "}}", "life": "members: {by: body.user, each: {budgets: [{requests: 10, per: life}]}}"})
	post := d.Open(t, s)
	for i, tenant := range []string{"ten", "each", "life"} { // of whose members one calls
		statuses := atOnce(t.Context(), 50, func(int) said { return call(t.Context(), post, tenant, chat(20, false, `"first_token_ms":50`)) })
		s.atRest(t)
		reached := s.Model.Stats().Requests - int64(10*i)
		t.Logf("%s: %d of 50 calls reached the model server: %v", tenant, reached, statuses)
		if reached > 10 || statuses[http.StatusOK] != 10 || statuses[http.StatusTooManyRequests] != 40 {
			t.Errorf("%s: %d calls reached the model server, and 50 callers were answered %v", tenant, reached, statuses)
		}
	}
}

func sharesByWeight(t *testing.T, d *Door) {
	testkit.Long(t, "measures shares in real time")
	const output = 90 // and ten of the prompt: 100 tokens a call
	rate := 100
	if d.Rate > 0 {
		rate = d.Rate
	}
	weights := map[string]int64{"four": 4, "two": 2, "one": 1}
	limits := map[string]string{}
	for tenant, w := range weights {
		limits[tenant] = fmt.Sprintf("weight: %d, max_wait: 30s", w)
	}
	s := newSite(t, fmt.Sprintf("tpm: %d, burst: 1s", rate*100*60), limits)
	post := d.Open(t, s)
	ctx, stop := context.WithCancel(t.Context())
	for tenant := range weights { // where a door does not tell the prompt's size, the first call teaches it
		call(ctx, post, tenant, chat(output, false, ""))
	}
	var callers sync.WaitGroup
	for tenant := range weights {
		for range 32 {
			callers.Go(func() {
				for ctx.Err() == nil {
					call(ctx, post, tenant, chat(output, false, ""))
				}
			})
		}
	}
	time.Sleep(1500 * time.Millisecond) // the burst is used up
	var got map[string]int64
	var asked bool
	for range 3 {
		got, asked = s.receivedWhileAsking(weights, max(6*time.Second, time.Duration(600/rate)*time.Second))
		if asked {
			break
		}
		t.Logf("%v, but not all of them asked for more all the time", got)
	}
	stop()
	callers.Wait()
	if !asked {
		t.Skip("this machine is too busy: no shares are due to tenants whose callers are late")
	}
	sum := got["four"] + got["two"] + got["one"]
	for tenant, w := range weights {
		share := float64(got[tenant]) / float64(max(1, sum))
		due := float64(w) / 7
		t.Logf("%s: %d of %d tokens, %.2f %% of what is due", tenant, got[tenant], sum, 100*share/due)
		if math.Abs(share/due-1) > 0.03 {
			t.Errorf("%s received %.4f of the pool, %.4f is due", tenant, share, due)
		}
	}
}

// receivedWhileAsking is what calls of tenants held as they were admitted in a while, and whether calls of each of them
// waited all the time: only then shares are due. On a machine with other work their callers may be late, also to end
// what was admitted: so what they were charged would tell of callers, not of shares.
func (s *Site) receivedWhileAsking(tenants map[string]int64, while time.Duration) (got map[string]int64, asked bool) {
	got = map[string]int64{}
	before := s.Scrape() // of all tenants at once: on a busy machine each look takes a while
	after := before
	asked = true
	for until := time.Now().Add(while); time.Now().Before(until); time.Sleep(100 * time.Millisecond) {
		after = s.Scrape()
		for tenant := range tenants {
			asked = asked && processtest.Sum(after, "llmgov_queue_depth", `tenant="`+tenant+`"`) > 0
		}
	}
	for tenant := range tenants {
		held := func(metrics string) int64 {
			return int64(processtest.Sum(metrics, "llmgov_tokens_total", `kind="held"`, `tenant="`+tenant+`"`))
		}
		got[tenant] = held(after) - held(before)
	}
	return got, asked
}

func concurrencyIsExact(t *testing.T, d *Door) {
	s := newSite(t, "concurrency: 5", map[string]string{"acme": "max_wait: 60s"})
	post := d.Open(t, s)
	statuses := atOnce(t.Context(), 40, func(int) said { return call(t.Context(), post, "acme", chat(5, false, `"first_token_ms":60`)) })
	if most := s.most.Load(); most != 5 || statuses[http.StatusOK] != 40 {
		t.Errorf("%d calls ran at once, and 40 callers were answered %v", most, statuses)
	}
	s.atRest(t)
}

// randomEnds has some calls end as they should or by an error, which is charged exactly, and others broken off by
// the caller or the model server: there the two sides differ by what is on its way.
func randomEnds(t *testing.T, d *Door) {
	s := newSite(t, "tpm: 1000000000, concurrency: 40", map[string]string{"acme": "max_wait: 60s"})
	post := d.Open(t, s)
	whole := []string{
		chat(20, false, ""), chat(20, true, ""), chat(30, false, `"output_tokens":7`), chat(30, true, `"output_tokens":7,"token_ms":1`),
		chat(30, false, `"error_status":503`), chat(30, true, `"error_status":400`),
	}
	made := each(720, func(rnd *rand.Rand) { call(t.Context(), post, "acme", whole[rnd.IntN(len(whole))]) })
	s.atRest(t)
	produced := s.Model.Stats().TokensProduced
	charged := s.charged("")
	t.Logf("%d calls that came to an end: charged %d tokens, produced %d", made, charged, produced)
	if charged != produced {
		t.Errorf("charged %d tokens, the model server produced %d", charged, produced)
	}

	const most = 40
	var left atomic.Int64
	broken := each(280, func(rnd *rand.Rand) {
		ctx, leave := context.WithCancel(t.Context())
		defer leave()
		stream := rnd.IntN(2) == 0
		switch rnd.IntN(3) {
		case 0: // the caller leaves
			timer := time.AfterFunc(time.Duration(rnd.IntN(60))*time.Millisecond, leave)
			defer timer.Stop()
			call(ctx, post, "acme", chat(most, stream, `"token_ms":2`))
			if ctx.Err() != nil {
				left.Add(1) // it may be before the model server has heard of the call
			}
		case 1: // the model server breaks off
			call(ctx, post, "acme", chat(most, stream, fmt.Sprintf(`"token_ms":1,"hangup_after":%d`, rnd.IntN(most))))
		default:
			call(ctx, post, "acme", chat(most, stream, ""))
		}
	})
	s.atRest(t)
	off := s.charged("") - charged - (s.Model.Stats().TokensProduced - produced)
	cut := left.Load() + s.Model.Stats().Hangups
	t.Logf("%d calls of which %d were broken off: charged %d tokens more than were produced", broken, cut, off)
	// What is broken off may be charged all that it held: most, and its prompt, estimated as a new tenant's.
	if off < -10*cut && d.Loses == "" || off > (most+40)*cut {
		t.Errorf("charged %d tokens more than were produced, with %d calls broken off", off, cut)
	}
}

// each does n things by 40 callers, each with random numbers of its own.
func each(n int, do func(*rand.Rand)) int {
	const callers = 40
	testkit.AtOnce(callers, func(i int) {
		rnd := rand.New(rand.NewPCG(1, uint64(i)))
		for range n / callers {
			do(rnd)
		}
	})
	return n / callers * callers
}

func refusalSaysAll(t *testing.T, d *Door) {
	s := newSite(t, "tpm: 100000000", map[string]string{"once": "rpm: 1", "spent": "budgets: [{requests: 1, per: month}], spent: 402", "stopped": "rpm: 9"})
	s.override(`{"tenant":"stopped","tpm":0,"why":"a leaked key","by":"ann"}`)
	post := d.Open(t, s)
	if first := call(t.Context(), post, "once", chat(5, false, "")); first.status != http.StatusOK {
		t.Fatalf("the first call: %+v", first)
	}
	got := call(t.Context(), post, "once", chat(5, false, ""))
	if got.status != http.StatusTooManyRequests || got.code != "rate_limit_exceeded" {
		t.Errorf("the second call of one a minute: %d %s", got.status, got.body)
	}
	for name, want := range map[string]string{"X-Ratelimit-Limit-Requests": "1", "X-Ratelimit-Remaining-Requests": "0", "X-Llmgov-Node": "here"} {
		if v := got.header.Get(name); v != want {
			t.Errorf("%s: %q, not %s", name, v, want)
		}
	}
	var seconds int
	if _, err := fmt.Sscan(got.header.Get("Retry-After"), &seconds); err != nil || seconds < 1 || seconds > 60 {
		t.Errorf("Retry-After: %q", got.header.Get("Retry-After"))
	}
	if unknown := call(t.Context(), post, "nobody", chat(5, false, "")); unknown.status != http.StatusUnauthorized {
		t.Errorf("an unknown key: %+v", unknown)
	}
	call(t.Context(), post, "spent", chat(5, false, ""))
	// Agents find statuses and invitations in texts, and come back by them.
	if end := call(t.Context(), post, "spent", chat(5, false, "")); end.code != "insufficient_quota" || end.header.Get("X-Should-Retry") != "false" ||
		!strings.Contains(end.body, "The budget of tenant spent is spent (requests per month). It resets at ") || strings.Contains(end.body, "try again") {
		t.Errorf("a spent budget: %+v", end)
	}
	if no := call(t.Context(), post, "stopped", chat(5, false, "")); no.code != "tenant_blocked" || !strings.Contains(no.body, "has blocked tenant stopped") || strings.Contains(no.body, "leaked") {
		t.Errorf("a limit that an override has set to 0: %+v", no)
	}
	if n := s.Model.Stats().Requests; n != 2 {
		t.Errorf("%d calls reached the model server", n)
	}
}

func callerIsKilled(t *testing.T, d *Door) {
	s := newSite(t, "tpm: 100000000", map[string]string{"acme": "max_wait: 1s"})
	post := d.Open(t, s)
	for range 10 { // teach how long the prompt is
		call(t.Context(), post, "acme", chat(5, true, ""))
	}
	s.atRest(t)
	before := s.charged("acme")
	ctx, kill := context.WithCancel(t.Context())
	defer kill()
	resp, err := post(ctx, "acme", chat(4000, true, `"token_ms":50`)) // so that twenty tokens are a second of a busy machine
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	testkit.Must(io.CopyN(io.Discard, resp.Body, 2000))(t)
	if n := s.leases(); n != 1 {
		t.Errorf("%d leases in mid-stream", n)
	}
	kill()
	s.atRest(t)
	produced := s.Model.Stats().TokensProduced - before
	charged := s.charged("acme") - before
	t.Logf("charged %d tokens, produced %d", charged, produced)
	if charged < produced-20 || charged > produced+20 {
		t.Errorf("charged %d tokens of a stream of which %d were produced", charged, produced)
	}
}

func llmgovIsKilled(t *testing.T, d *Door) {
	s := newSite(t, "tpm: 100000000", map[string]string{"acme": "max_wait: 1s"})
	s.Lasts = time.Second // a program tells of its end for so long
	s.goesOn = make(chan struct{})
	post := d.Open(t, s)
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	resp := testkit.Must(post(ctx, "acme", chat(400, true, "")))(t)
	defer resp.Body.Close()
	testkit.Must(io.CopyN(io.Discard, resp.Body, 1000))(t)
	s.Kill()
	close(s.goesOn)
	rest, err := io.ReadAll(resp.Body)
	inFlight := BreaksOff
	if err == nil && strings.Contains(string(rest), "[DONE]") {
		inFlight = GoesOn
	}
	away := Fails
	if late := call(ctx, post, "acme", chat(5, false, "")); late.status == http.StatusOK {
		away = Pass
	}
	if inFlight != d.InFlight || away != d.Away {
		t.Errorf("the call in flight %s (%v), and new ones %s; declared are %q and %q", inFlight, err, away, d.InFlight, d.Away)
	}
}
