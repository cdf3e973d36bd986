package simulate

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

const twoUpstreams = `
duration: 3m
warmup: 1m
pool: {upstreams: [{name: x, tpm: 2000}, {name: y, tpm: 4000, order: 1}]}
cost: {dist: constant, mean: 100}
tenants:
  - {name: a, weight: 1, load: {kind: backlogged, workers: 5}}
  - {name: b, weight: 1, upstreams: [y], load: {kind: backlogged, workers: 5}}
events:
  - {at: 100s, lost: y, for: 20s}
`

// In the second minute 4500 tokens go beyond the first order: 1500 of them while half of the other is used, which b may not use for its 2000, and
// 1000 while it is used up.
func TestUpstreams_OfAHandMadeTrace(t *testing.T) {
	s := script{Trace{Upstreams: map[int32]int{}}}
	const second = time.Second
	to := func(upstream int, tenant int32, at time.Duration, tokens int64) {
		s.Upstreams[s.ask(tenant, at, 0, tokens)] = upstream
	}
	to(0, 0, 61*second, 1000)
	to(1, 0, 62*second, 1500)
	to(1, 1, 63*second, 2000)
	to(0, 0, 64*second, 1000)
	to(1, 0, 65*second, 1000)
	p := newPlan(parsed(t, twoUpstreams), 1)
	f, _ := newAudit(p, &s.Trace).figures()
	near(t, "spilled", f.Spilled, 2500.0/6500)
	near(t, "spill_full", f.SpillFull, (1500*0.5+1000)/2500)
	near(t, "upstreams_max", f.UpstreamsMax, 4500.0/4000)
	near(t, "tokens_utilization", f.TokensUtilization, 6500/(2*6000-4000.0/3))
}

// Full use is back three seconds after the loss, and five after the return.
func TestUpstreams_Recovery(t *testing.T) {
	var s script
	for at := 60; at < 180; at++ {
		tokens := int64(100)
		switch {
		case at >= 120 && at < 125:
			tokens = 20
		case at >= 103 && at < 125:
			tokens = 34
		case at >= 100 && at < 103:
			tokens = 0
		}
		s.ask(0, time.Duration(at)*time.Second, 0, tokens)
	}
	p := newPlan(parsed(t, twoUpstreams), 1)
	f, _ := newAudit(p, &s.Trace).figures()
	near(t, "recovery_seconds_max", f.Recovery, 5)
}

// A tenant's calls go only to the upstreams that it may use, and none begins at one that is lost; what runs there breaks off.
func TestUpstreams_Lost(t *testing.T) {
	t.Parallel()
	const from, to = 100 * time.Second, 120 * time.Second
	w := worldOf(t, strings.Replace(twoUpstreams, "cost:", "service: 3s\ncost:", 1))
	for _, e := range w.trace.Events {
		r := &w.trace.Requests[e.Request]
		upstream := w.trace.Upstreams[e.Request]
		lost := e.At > from && e.At < to && upstream == 1
		if lost && (e.Kind == Admitted || e.Kind == Settled) {
			t.Fatalf("at %v a call has a %v at the upstream that is lost", e.At, e.Kind)
		}
		if e.Kind == Admitted && r.Tenant == 1 && upstream != 1 {
			t.Fatalf("b's call goes to %d", upstream)
		}
	}
	if f := play(t, twoUpstreams).Figures; f.UpstreamsMax > 1 {
		t.Errorf("%.4f of an upstream's limit was used", f.UpstreamsMax)
	}
}

// The log names the upstream of each call that is admitted.
func TestUpstreams_Log(t *testing.T) {
	t.Parallel()
	w := worldOf(t, twoUpstreams)
	var log bytes.Buffer
	if err := writeLog(&log, w.plan, &w.trace); err != nil {
		t.Fatal(err)
	}
	admits := strings.Count(log.String(), `"ev":"admit"`)
	named := strings.Count(log.String(), `"upstream":"x"`) + strings.Count(log.String(), `"upstream":"y"`)
	if admits == 0 || named != admits {
		t.Errorf("%d of %d lines of calls that are admitted name an upstream", named, admits)
	}
}
