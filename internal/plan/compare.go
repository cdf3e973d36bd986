package plan

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/llmgov/llmgov/internal/decisions"
)

// Report is what a candidate would have changed, against what the log's own policy comes to when
// all is decided again by it: both ways assume the same. Of calls that were forced, and of those
// that the log leaves open, it tells nothing.
type Report struct {
	From    time.Time `json:"from"`
	Seconds float64   `json:"seconds"`
	Calls   int       `json:"calls"`
	// Exact says that the log's own policy decides all as it was. Else Differ calls come
	// out otherwise by that, and Inexact more at another time or with other figures;
	// LostLines are missing, or the log's beginning is. Taken are those of Calls that are not
	// decided again, by neither policy.
	Exact     bool   `json:"exact"`
	Differ    int    `json:"differ"`
	Inexact   int    `json:"inexact"`
	Taken     int    `json:"taken_as_they_were"`
	LostLines uint64 `json:"lost_lines"`
	Late      bool   `json:"begins_late"`
	// KnownFrom is when calls begin to be decided again, if it is Late.
	KnownFrom time.Time `json:"known_from,omitzero"`
	// Reloads are changes of the policy in the log; the candidate holds for all of it.
	Reloads int `json:"reloads"`

	// Shared says that the gateways shared limits. Then they are decided as if they were one that
	// has them to itself, and nothing is exact. Missing are those that no log tells of, and
	// Unwatched says that nobody has seen which there were.
	Shared    bool        `json:"shared"`
	Logs      []LogReport `json:"logs"`
	Missing   []Missing   `json:"missing"`
	Unwatched bool        `json:"unwatched"`

	NowRefused  int `json:"now_refused"`
	NowAdmitted int `json:"now_admitted"`

	Tenants []*TenantReport `json:"tenants"`
	Flips   []Flip          `json:"flips"`
}

// TenantReport is what changes for one tenant.
type TenantReport struct {
	Tenant      string     `json:"tenant"`
	Calls       int        `json:"calls"`
	NowRefused  int        `json:"now_refused"`
	NowAdmitted int        `json:"now_admitted"`
	Before      Side       `json:"before"`
	After       Side       `json:"after"`
	By          []Refusals `json:"now_refused_by"`

	waits [2][]time.Duration
	by    map[Refusals]int
}

// Side is one of the two ways.
type Side struct {
	Admitted int `json:"admitted"`
	Refused  int `json:"refused"`
	// Left are those whose callers went away while they waited.
	Left int `json:"left"`
	// WouldRefuse are of those admitted the ones that only shadow let through.
	WouldRefuse int `json:"would_refuse"`
	// The waits of those admitted.
	WaitP50 float64 `json:"wait_p50_seconds"`
	WaitP99 float64 `json:"wait_p99_seconds"`
	// Tokens are those that admitted calls took.
	Tokens int64 `json:"tokens"`
}

// Refusals counts calls that one limit refuses.
type Refusals struct {
	Of     string `json:"of"`
	Axis   string `json:"axis"`
	Reason string `json:"reason"`
	Calls  int    `json:"calls"`
}

// Flip is one call that comes out otherwise.
type Flip struct {
	Request string         `json:"request"`
	Tenant  string         `json:"tenant"`
	Model   string         `json:"model"`
	At      time.Time      `json:"at"`
	Before  Outcome        `json:"before"`
	After   Outcome        `json:"after"`
	Was     *decisions.Why `json:"was,omitempty"`
	Why     *decisions.Why `json:"why,omitempty"`
}

// Compare has logs decided again, by their own policy and by a candidate. Runs in which limits
// were shared are decided together, and each of the others for itself. It takes over the logs.
func Compare(logs []Log, candidate Policy) (*Report, error) {
	if err := checkTwice(logs); err != nil {
		return nil, err
	}
	r := &Report{Flips: []Flip{}, Logs: logReports(logs), Missing: []Missing{}}
	shared, runs := sharedOf(logs)
	if len(shared) > 0 {
		r.Shared = true
		fleet := together(shared)
		runs = append(runs, fleet)
		r.Missing = missingFrom(shared, fleet.decidedFrom())
		r.Unwatched = !slices.ContainsFunc(shared, func(r *Run) bool { return len(r.seen) > 0 })
	}
	slices.SortStableFunc(runs, func(a, b *Run) int { return a.begins().Compare(b.begins()) })
	tenants := map[string]*TenantReport{}
	for _, run := range runs {
		if err := r.compare(run, candidate, tenants); err != nil {
			return nil, err
		}
	}
	r.Exact = !r.Shared && r.Differ == 0 && r.Inexact == 0 && r.LostLines == 0 && !r.Late
	for _, name := range slices.Sorted(maps.Keys(tenants)) {
		t := tenants[name]
		t.finish()
		r.Tenants = append(r.Tenants, t)
	}
	return r, nil
}

// compare has a run decided again.
func (r *Report) compare(run *Run, candidate Policy, tenants map[string]*TenantReport) error {
	before, err := run.Replay(run.OwnPolicy())
	if err != nil {
		return err
	}
	after, err := run.Replay(candidate)
	if err != nil {
		return err
	}
	r.about(run)
	for i, c := range run.Calls {
		if c.Decided.Outcome == Open {
			continue
		}
		switch {
		case c.Decided.Outcome != before[i].Outcome:
			r.Differ++
		case !c.Decided.Same(&before[i].Decision):
			r.Inexact++
		}
		if !c.Request.Forced {
			r.add(tenants, run, c, &before[i], &after[i])
		}
	}
	return nil
}

// about adds up what is told of runs.
func (r *Report) about(run *Run) {
	if r.From.IsZero() {
		r.From = run.begins()
	}
	if n := len(run.Calls); n > 0 {
		r.Seconds += time.Duration(run.Calls[n-1].At - run.begin).Seconds()
	}
	r.LostLines += run.Lost
	if run.Late {
		r.Late, r.KnownFrom = true, run.decidedFrom()
	}
	for i := range run.changes {
		if run.changes[i].Kind == decisions.Applied {
			r.Reloads++
		}
	}
}

// add counts a call on both of its ways.
func (r *Report) add(tenants map[string]*TenantReport, run *Run, c *Call, before, after *Result) {
	t := tenants[c.Request.Tenant]
	if t == nil {
		t = &TenantReport{Tenant: c.Request.Tenant, by: map[Refusals]int{}}
		tenants[t.Tenant] = t
	}
	r.Calls++
	if run.takenAsItWas(c) {
		r.Taken++
	}
	t.Calls++
	t.Before.add(before, &t.waits[0])
	t.After.add(after, &t.waits[1])
	if before.Outcome == after.Outcome || before.Outcome == Open {
		return
	}
	switch {
	case after.Outcome == Refused && before.Outcome == Admitted:
		r.NowRefused++
		t.NowRefused++
		t.by[Refusals{Of: whose(after.Why, c), Axis: after.Why.Axis, Reason: after.Why.Reason}]++
	case after.Outcome == Admitted:
		r.NowAdmitted++
		t.NowAdmitted++
	}
	r.Flips = append(r.Flips, Flip{
		Request: c.Request.ID, Tenant: c.Request.Tenant, Model: c.Request.Model, At: run.Start.Time.Add(time.Duration(c.At)),
		Before: before.Outcome, After: after.Outcome, Was: before.Why, Why: after.Why,
	})
}

// whose limit it is.
func whose(why *decisions.Why, c *Call) string {
	if why.Own {
		return why.Tenant
	}
	return "pool " + c.Request.Pool
}

func (s *Side) add(d *Result, waits *[]time.Duration) {
	switch d.Outcome {
	case Admitted:
		s.Admitted++
		s.Tokens += d.Took.Input + d.Took.Output
		*waits = append(*waits, d.Waited)
		if d.Why != nil {
			s.WouldRefuse++
		}
	case Refused:
		s.Refused++
	case Left:
		s.Left++
	case Open: // it waits when the record ends
	}
}

func (t *TenantReport) finish() {
	for i, s := range []*Side{&t.Before, &t.After} {
		slices.Sort(t.waits[i])
		s.WaitP50, s.WaitP99 = quantile(t.waits[i], 0.5), quantile(t.waits[i], 0.99)
	}
	t.By = []Refusals{}
	for by, n := range t.by {
		by.Calls = n
		t.By = append(t.By, by)
	}
	slices.SortFunc(t.By, func(a, b Refusals) int {
		return cmp.Or(cmp.Compare(b.Calls, a.Calls), cmp.Compare(a.Of, b.Of), cmp.Compare(a.Axis, b.Axis), cmp.Compare(a.Reason, b.Reason))
	})
}

// quantile is the smallest that so many are not above.
func quantile(sorted []time.Duration, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[max(0, int(math.Ceil(q*float64(len(sorted))))-1)].Seconds()
}
