package plan

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/llmgov/llmgov/internal/ops/decisions"
)

// Report is the difference that a candidate would have made, against what the log's own policy comes to when
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

	// Shared says that the gateways shared limits, and Granted that their logs have all that the store granted them: then the log's own policy
	// decides each alone. A candidate decides them as if they were one gateway that has the limits to itself, against the log's own policy doing the
	// same: AsOne calls come out otherwise by that, or, if the grants are not there, Differ. Missing are those that no log tells of, and
	// Unwatched says that nobody has seen which there were.
	Shared    bool        `json:"shared"`
	Granted   bool        `json:"granted"`
	AsOne     int         `json:"as_one_differ"`
	Logs      []LogReport `json:"logs"`
	Missing   []Missing   `json:"missing"`
	Unwatched bool        `json:"unwatched"`
	// Alone are runs of gateways that shared nothing at the time: each is decided for itself.
	Alone int `json:"runs_alone"`
	// BudgetsFromZero says that there are budgets, and that their usage before the log begins is unknown.
	BudgetsFromZero bool `json:"budgets_from_zero"`

	NowRefused  int `json:"now_refused"`
	NowAdmitted int `json:"now_admitted"`

	Tenants []*TenantReport `json:"tenants"`
	Flips   []Flip          `json:"flips"`
}

// TenantReport is the difference for one tenant.
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
		s.WaitP50 = quantile(t.waits[i], 0.5)
		s.WaitP99 = quantile(t.waits[i], 0.99)
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
