package plan

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/llmgov/llmgov/escrow/budget"
	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/ops/decisions"
	"github.com/llmgov/llmgov/internal/test/testkit"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// slots is a policy of one pool that takes so many calls at once.
func slots(n int64) *decisions.Policy {
	return &decisions.Policy{
		Hash: fmt.Sprint(n), Pools: []governor.Pool{{Name: "p", Concurrency: n, MaxQueue: 9}},
		Tenants: []governor.Tenant{{Name: "a", Weight: 1}},
	}
}

func candidateOf(p *decisions.Policy) Policy { return Policy{Governor: configOf(p)} }

// started is the first line of a gateway that shares limits, so long after noon.
func started(node string, after time.Duration, p *decisions.Policy) decisions.Line {
	return decisions.Line{Kind: decisions.Started, Policy: p, Start: &decisions.Start{Version: 1, Time: noon.Add(after), Zone: "UTC", Node: node, Shared: true}}
}

// line is one of a call.
func line(at time.Duration, kind decisions.Kind, call uint64) decisions.Line {
	l := decisions.Line{At: int64(at), Kind: kind, Call: call}
	switch kind {
	case decisions.Asked:
		l.Ask = &decisions.Ask{Request: fmt.Sprint(call), Tenant: "a", Pool: "p"}
	case decisions.Ended:
		l.Ending = governor.EndSettled.String()
		l.Usage = &governor.Usage{}
	case decisions.Seen:
		l.Call = 0
		l.Nodes = []string{"a", "b"}
	}
	return l
}

func refused(at time.Duration, call uint64, why governor.Reason) decisions.Line {
	return decisions.Line{At: int64(at), Kind: decisions.Refused, Call: call, Why: &decisions.Why{Reason: why.String()}}
}

func applied(at time.Duration, p *decisions.Policy) decisions.Line {
	return decisions.Line{At: int64(at), Kind: decisions.Applied, Policy: p}
}

// compared is what a candidate changes in logs of such lines.
func compared(t *testing.T, candidate *decisions.Policy, logs ...[]decisions.Line) *Report {
	t.Helper()
	var list []Log
	for i, lines := range logs {
		list = append(list, logOf(t, fmt.Sprint("log ", i), lines))
	}
	return testkit.Must(Compare(list, candidateOf(candidate)))(t)
}

// What runs in a gateway that is killed ends with it, and who waits there goes: others go on.
func TestCompare_KilledGateway(t *testing.T) {
	r := compared(t, slots(1),
		[]decisions.Line{
			started("a", 0, slots(1)), line(time.Second, decisions.Asked, 1), line(time.Second, decisions.Admitted, 1),
			line(2*time.Second, decisions.Asked, 2), line(3*time.Second, decisions.Progress, 1),
		},
		[]decisions.Line{
			started("b", time.Second, slots(1)), line(5*time.Second, decisions.Asked, 1), line(5*time.Second, decisions.Admitted, 1),
			line(6*time.Second, decisions.Ended, 1),
		})
	if r.Calls != 2 || r.Differ > 0 || r.Tenants[0].Before.Admitted != 2 {
		t.Errorf("of %d calls %d come out otherwise: %+v", r.Calls, r.Differ, r.Tenants[0].Before)
	}
}

// Who waits in a gateway that is killed, or goes away, takes nothing of what others have.
func TestCompare_WhoWaitsAndGoes(t *testing.T) {
	patient := slots(1)
	patient.Tenants[0].MaxWait = time.Hour
	gone := refused(3*time.Second, 2, governor.ReasonCancelled)
	gone.Waited = int64(time.Second)
	gone.Why.Axis = "concurrency"
	gone.Why.Limit = 1
	gone.Why.Used = 1
	gone.Why.Asked = 1
	gone.Why.Tenant = "a"
	for name, end := range map[string][]decisions.Line{
		"killed": {line(3*time.Second, decisions.Progress, 1)},
		"gone":   {line(3*time.Second, decisions.Left, 2), gone, line(3*time.Second, decisions.Ended, 1)},
	} {
		t.Run(name, func(t *testing.T) {
			a := []decisions.Line{
				started("a", time.Minute, patient), line(time.Second, decisions.Asked, 1), line(time.Second, decisions.Admitted, 1), line(2*time.Second, decisions.Asked, 2),
			}
			r := compared(t, patient, append(a, end...), []decisions.Line{
				started("b", 0, patient), line(time.Minute+3500*time.Millisecond, decisions.Asked, 1), line(time.Minute+3500*time.Millisecond, decisions.Admitted, 1),
				line(time.Minute+4500*time.Millisecond, decisions.Ended, 1),
			})
			before := r.Tenants[0].Before
			if r.Differ > 0 || before.Admitted != 2 || before.WaitP99 > 0 {
				t.Errorf("of %d calls %d come out otherwise: %+v", r.Calls, r.Differ, before)
			}
		})
	}
}

// What one gateway refused as it shut down, or was cut off, stays refused.
func TestCompare_RefusedByNoPolicy(t *testing.T) {
	lines := []decisions.Line{started("a", 0, slots(1))}
	for i, why := range []governor.Reason{governor.ReasonDraining, governor.ReasonStore, governor.ReasonStoreLost} {
		call := uint64(i + 1)
		lines = append(lines, line(time.Second, decisions.Asked, call), refused(time.Second, call, why))
	}
	r := compared(t, slots(9), append(lines, decisions.Line{At: int64(2 * time.Second), Kind: decisions.Drained}), []decisions.Line{
		started("b", 0, slots(1)), line(5*time.Second, decisions.Asked, 1), line(5*time.Second, decisions.Admitted, 1),
	})
	if b, a := r.Tenants[0].Before, r.Tenants[0].After; r.Taken != 3 || r.Differ > 0 || b.Refused != 3 || a.Refused != 3 || a.Admitted != 1 {
		t.Errorf("%d are taken as they were, %d differ: %+v, %+v", r.Taken, r.Differ, b, a)
	}
	if text := r.worth(); !strings.Contains(text, "2 gateways") || !strings.Contains(text, " 1 of 1 calls are decided as recorded") {
		t.Errorf("it says %s", text)
	}
}

// A log that is not as its own policy has it is compared by what that makes of it.
func TestCompare_AgainstOwnPolicy(t *testing.T) {
	var lines []decisions.Line
	for call := range uint64(3) { // all at once, though there is one slot
		lines = append(lines, line(time.Second, decisions.Asked, call+1), line(time.Second, decisions.Admitted, call+1))
	}
	for name, shared := range map[string]bool{"alone": false, "shared": true} {
		t.Run(name, func(t *testing.T) {
			first := started("a", 0, slots(1))
			first.Start.Shared = shared
			all := append([]decisions.Line{first}, lines...)
			if r := compared(t, slots(1), all); r.Differ != 2 || r.NowRefused+r.NowAdmitted > 0 || r.Tenants[0].Before.Admitted != 1 {
				t.Errorf("by the same policy %d come out otherwise, %d and %d flip: %+v", r.Differ, r.NowRefused, r.NowAdmitted, r.Tenants[0].Before)
			}
			if r := compared(t, slots(2), all); r.NowAdmitted != 1 {
				t.Errorf("%d more are admitted", r.NowAdmitted)
			}
		})
	}
}

// Until three minutes behind the last beginning that is gone, calls of all gateways are taken as they were.
func TestCompare_LateLog(t *testing.T) {
	late := started("a", -time.Hour, slots(1))
	late.Kind = decisions.Continued
	late.At = int64(time.Hour + 10*time.Minute)
	var b []decisions.Line
	for i, at := range []time.Duration{0, 11 * time.Minute, 13 * time.Minute} { // two at once, of which there is one slot
		for k := range uint64(2) {
			call := uint64(2*i) + k + 1
			b = append(b, line(at, decisions.Asked, call), line(at, decisions.Admitted, call), line(at+time.Second, decisions.Ended, call))
		}
	}
	r := compared(t, slots(1), []decisions.Line{late}, append([]decisions.Line{started("b", 0, slots(1))}, b...))
	if want := noon.Add(13 * time.Minute); r.Taken != 4 || r.Differ != 1 || !r.KnownFrom.Equal(want) || !r.From.Equal(noon) {
		t.Errorf("from %s, known from %s: %d are taken as they were, %d come out otherwise", r.From, r.KnownFrom, r.Taken, r.Differ)
	}
	if text := r.worth(); !strings.Contains(text, "so calls until 2026-11-21T12:13:00Z are taken as recorded") {
		t.Errorf("it says %s", text)
	}
}

// What is withheld from all gateways is not there for one that has the rest to itself.
func TestCompare_WithoutWhatIsWithheld(t *testing.T) {
	policy := slots(2)
	policy.Pools[0].OnLoss = governor.LossLocal
	policy.Pools[0].LocalPPM = 500_000
	r := compared(t, policy, []decisions.Line{
		started("a", 0, policy), line(time.Second, decisions.Asked, 1), line(time.Second, decisions.Admitted, 1),
		line(2*time.Second, decisions.Asked, 2), refused(2*time.Second, 2, governor.ReasonConcurrency),
	})
	if r.Differ > 0 || r.Tenants[0].After.Admitted != 1 {
		t.Errorf("%d come out otherwise: %+v", r.Differ, r.Tenants[0].After)
	}
}

// Budgets of which it is not known what was used before are told of, whoever has them.
func TestCompare_BudgetsFromZero(t *testing.T) {
	plain := slots(1)
	capped := slots(1)
	capped.Tenants[0].Budgets = []governor.Budget{{Unit: governor.UnitRequests, Limit: 9, Per: budget.Month}}
	whole := started("a", 0, plain)
	late := started("a", 0, plain)
	whole.Start.Shared = false
	late.Start.Shared = false
	late.Kind = decisions.Continued
	for name, c := range map[string]struct {
		candidate *decisions.Policy
		lines     []decisions.Line
		want      bool
	}{
		"none":                 {plain, []decisions.Line{started("a", 0, plain)}, false},
		"of the log":           {plain, []decisions.Line{started("a", 0, capped)}, true},
		"of the log, later":    {plain, []decisions.Line{started("a", 0, plain), applied(1, capped)}, true},
		"of the candidate":     {capped, []decisions.Line{started("a", 0, plain)}, true},
		"beginning is gone":    {capped, []decisions.Line{late}, true},
		"known from the start": {capped, []decisions.Line{whole}, false},
	} {
		r := compared(t, c.candidate, c.lines)
		if r.BudgetsFromZero != c.want || c.want != strings.Contains(r.worth(), "Earlier usage of budgets is unknown") {
			t.Errorf("%s: %v: %s", name, r.BudgetsFromZero, r.worth())
		}
	}
}

// Gateways that share nothing are decided each for itself, however many logs are given.
func TestCompare_GatewaysThatShareNothing(t *testing.T) {
	var logs [][]decisions.Line
	for _, node := range []string{"a", "b"} {
		first := started(node, 0, slots(1))
		first.Start.Shared = false
		logs = append(logs, []decisions.Line{first, line(time.Second, decisions.Asked, 1), line(time.Second, decisions.Admitted, 1)})
	}
	if r := compared(t, slots(1), logs...); !r.Exact || r.Shared || r.Calls != 2 || r.Alone != 2 {
		t.Errorf("%+v", r)
	}
	logs[0][0].Start.Shared = true
	if r := compared(t, slots(1), logs...); r.Exact || r.Calls != 2 || r.Differ > 0 || !strings.Contains(r.worth(), "1 runs had no store") {
		t.Errorf("where one shares: %+v", r)
	}
}

// The policy in force is the one that any gateway took up last, and not one that others follow later.
func TestTogether_Policies(t *testing.T) {
	for name, c := range map[string]struct {
		a, b []decisions.Line
		want string
	}{
		"one follows":         {[]decisions.Line{started("a", 0, slots(1)), applied(10, slots(2))}, []decisions.Line{started("b", 0, slots(1)), applied(20, slots(2))}, "2@10"},
		"and again":           {[]decisions.Line{started("a", 0, slots(1)), applied(10, slots(2)), applied(12, slots(3))}, []decisions.Line{started("b", 0, slots(1)), applied(20, slots(2)), applied(22, slots(3))}, "2@10 3@12"},
		"and back":            {[]decisions.Line{started("a", 0, slots(1)), applied(10, slots(2)), applied(30, slots(1))}, []decisions.Line{started("b", 0, slots(1)), applied(20, slots(2)), applied(40, slots(1))}, "2@10 1@30"},
		"one takes two steps": {[]decisions.Line{started("a", 0, slots(1)), applied(10, slots(2)), applied(12, slots(3))}, []decisions.Line{started("b", 0, slots(1)), applied(20, slots(3))}, "2@10 3@12"},
		"one starts with it":  {[]decisions.Line{started("a", 0, slots(1)), applied(30, slots(2))}, []decisions.Line{started("b", 10, slots(2))}, "2@10"},
		"starts take it back": {[]decisions.Line{started("a", 0, slots(1)), applied(10, slots(2))}, []decisions.Line{started("b", 20, slots(1))}, "2@10 1@20"},
	} {
		t.Run(name, func(t *testing.T) {
			all := together(slices.Concat(logOf(t, "a", c.a).Runs, logOf(t, "b", c.b).Runs))
			var got []string
			for _, ch := range all.changes {
				got = append(got, fmt.Sprintf("%s@%d", ch.Policy.Hash, ch.At))
			}
			if strings.Join(got, " ") != c.want || all.Policy.Hash != "1" {
				t.Errorf("it has %s and then %q, want %s", all.Policy.Hash, got, c.want)
			}
		})
	}
}

// Of as many gateways as there are when one cuts a pool, each cuts its part: all that of one.
func TestTogether_Cuts(t *testing.T) {
	cut := func(at, until time.Duration, part int64) decisions.Line {
		return decisions.Line{At: int64(at), Kind: decisions.Throttled, Pool: "p", Cuts: []decisions.Cut{{Part: part, TPM: part / 1000, Until: int64(until)}}}
	}
	runs := slices.Concat(
		logOf(t, "a", []decisions.Line{started("a", 0, slots(1)), cut(10, 100, governor.Whole), {At: 60, Kind: decisions.Drained}}).Runs,
		logOf(t, "b", []decisions.Line{started("b", 5, slots(1)), cut(15, 115, governor.Whole), {At: 200, Kind: decisions.Drained}}).Runs,
		logOf(t, "c", []decisions.Line{started("c", 0, slots(1)), cut(30, 130, governor.Whole), cut(70, 130, governor.Whole/2)}).Runs,
	)
	var got []string
	for _, c := range together(runs).changes {
		text := fmt.Sprintf("%d:", c.At)
		for _, cut := range c.Cuts {
			text += fmt.Sprintf(" %d %d until %d,", cut.Part, cut.TPM, cut.Until)
		}
		got = append(got, text)
	}
	want := []string{
		"10: 333334 334 until 100,",
		"20: 333334 334 until 100, 333334 334 until 120,",
		"30: 333334 334 until 100, 333334 334 until 130, 333334 334 until 120,",
		"70: 250000 250 until 130, 500000 500 until 120,",
	}
	if !slices.Equal(got, want) {
		t.Errorf("the cuts are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// Gateways that were seen, and of which no log tells, are named, and when.
func TestCompare_MissingLogs(t *testing.T) {
	a := func(times ...time.Duration) []decisions.Line {
		lines := []decisions.Line{started("a", 0, slots(1))}
		for _, at := range times {
			lines = append(lines, line(at, decisions.Seen, 0))
		}
		return append(lines, decisions.Line{At: lines[len(lines)-1].At, Kind: decisions.Drained})
	}
	b := func(from, to time.Duration) []decisions.Line {
		return []decisions.Line{started("b", from, slots(1)), {At: int64(to - from), Kind: decisions.Drained}}
	}
	for name, c := range map[string]struct {
		logs [][]decisions.Line
		want string // from and to
	}{
		"both are there":    {[][]decisions.Line{a(time.Second, 10*time.Minute), b(0, 10*time.Minute)}, ""},
		"no log":            {[][]decisions.Line{a(time.Second, 10*time.Minute)}, "12:00:01 12:10:00"},
		"seen at the end":   {[][]decisions.Line{a(10 * time.Minute)}, "12:10:00 12:10:00"},
		"it begins late":    {[][]decisions.Line{a(time.Second, 10*time.Minute), b(5*time.Minute, 10*time.Minute)}, "12:00:01 12:03:45"},
		"it ends early":     {[][]decisions.Line{a(time.Second, 10*time.Minute), b(0, 5*time.Minute)}, "12:06:15 12:10:00"},
		"it was away since": {[][]decisions.Line{append(a(time.Second, 4*time.Minute), decisions.Line{At: int64(5 * time.Minute), Kind: decisions.Seen, Nodes: []string{"a"}}, line(9*time.Minute, decisions.Lost, 0)), b(0, 5*time.Minute)}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := compared(t, slots(1), c.logs...)
			got := ""
			for _, m := range r.Missing {
				got += m.From.Format(time.TimeOnly) + " " + m.To.Format(time.TimeOnly)
				if m.Node != "b" {
					t.Errorf("missing is %s", m.Node)
				}
			}
			if got != c.want || r.Unwatched || (got != "") != strings.Contains(r.worth(), "The log of b, which shared the limits") {
				t.Errorf("missing %q, want %q; it says %s", got, c.want, r.worth())
			}
		})
	}
}

// One log in which nobody was seen says that there may be others.
func TestCompare_Unwatched(t *testing.T) {
	const hint = "The log does not say which other gateways shared the limits"
	one := []decisions.Line{started("a", 0, slots(1))}
	if r := compared(t, slots(1), one); !r.Unwatched || !strings.Contains(r.worth(), hint) {
		t.Errorf("of one log it says %s", r.worth())
	}
	if r := compared(t, slots(1), one, []decisions.Line{started("b", 0, slots(1))}); strings.Contains(r.worth(), hint) {
		t.Errorf("of both it says %s", r.worth())
	}
}

// Logs that tell of other times than all the others stand out, and a run in two logs is an error.
func TestCompare_WhichLogs(t *testing.T) {
	end := decisions.Line{At: int64(time.Minute), Kind: decisions.Drained}
	r := compared(t, slots(1),
		[]decisions.Line{started("a", 0, slots(1)), end}, []decisions.Line{started("b", 50*time.Second, slots(1)), end}, []decisions.Line{started("c", time.Hour, slots(1)), end})
	if r.Logs[0].Apart || r.Logs[1].Apart || !r.Logs[2].Apart {
		t.Errorf("%+v", r.Logs)
	}
	twice := []decisions.Line{started("a", 0, slots(1))}
	_, err := Compare([]Log{logOf(t, "x", twice), logOf(t, "y", twice)}, candidateOf(slots(1)))
	if want := "x and y are logs of the same gateway, started at 2026-11-21T12:00:00Z; give each log once"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// A file that goes on from one which is not there is not taken for more of the run before it.
func TestReadLog_RunWithoutItsBeginning(t *testing.T) {
	began := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	head := func(kind decisions.Kind, at time.Time) decisions.Line {
		return decisions.Line{Kind: kind, Start: &decisions.Start{Version: decisions.Version, Time: at, Zone: "UTC"}}
	}
	lines := []decisions.Line{
		head(decisions.Started, began), head(decisions.Continued, began), // one run, of two files
		head(decisions.Continued, began.Add(time.Hour)), head(decisions.Continued, began.Add(time.Hour)),
	}
	log, err := ReadLog("decisions.jsonl", func(yield func(decisions.Line, error) bool) {
		for _, l := range lines {
			if !yield(l, nil) {
				return
			}
		}
	})
	if err != nil || len(log.Runs) != 2 || log.Runs[0].Late || !log.Runs[1].Late {
		t.Errorf("%d runs, %v; want one, and one without its beginning", len(log.Runs), err)
	}
}
