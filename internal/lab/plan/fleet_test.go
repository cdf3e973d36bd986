package plan

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/ops/decisions"
	"github.com/llmgov/llmgov/internal/test/testkit"
)

// logOf is a log of such lines.
func logOf(t *testing.T, path string, lines []decisions.Line) Log {
	t.Helper()
	log := testkit.Must(ReadLog(path, func(yield func(decisions.Line, error) bool) {
		for _, l := range lines {
			if !yield(l, nil) {
				return
			}
		}
	}))(t)
	return log
}

// life is a gateway of which a test writes the log.
type life struct {
	node    string
	log     int
	starts  time.Duration
	numbers map[uint64]uint64 // of its calls
	lines   []decisions.Line
}

// begin writes the line that it starts with.
func (l *life) begin(first *decisions.Line) {
	start := *first.Start
	start.Node = l.node
	start.Shared = true
	start.Time = start.Time.Add(l.starts)
	l.lines = append(l.lines, decisions.Line{Kind: decisions.Started, Start: &start, Policy: first.Policy})
}

// tell writes down what another one did as if it was this one.
func (l *life) tell(line decisions.Line) {
	line.At -= int64(l.starts)
	if line.Call > 0 {
		if l.numbers[line.Call] == 0 {
			l.numbers[line.Call] = uint64(len(l.numbers) + 1)
		}
		line.Call = l.numbers[line.Call]
	}
	line.Cuts = slices.Clone(line.Cuts)
	for i := range line.Cuts {
		line.Cuts[i].Until -= int64(l.starts)
	}
	l.lines = append(l.lines, line)
}

// split makes logs of gateways that share limits of the log of one that had decided all of it.
// Each numbers its calls from 1; one starts late, one again, and reloads come late to all but one.
func split(t *testing.T, path string) []Log {
	t.Helper()
	lives := []*life{{node: "a"}, {node: "b", log: 1, starts: time.Minute}, {node: "c", log: 2}, {node: "c2", log: 2, starts: 4 * time.Minute}}
	of := map[uint64]*life{}
	for line, err := range decisions.Read(decisions.Files(path)) {
		switch at := time.Duration(line.At); {
		case err != nil:
			t.Fatal(err)
		case line.Kind == decisions.Started:
			for _, l := range lives {
				l.numbers = map[uint64]uint64{}
				l.begin(&line)
			}
		case line.Kind == decisions.Applied, line.Kind == decisions.Throttled:
			for i, l := range lives {
				if l == lives[3] && at < l.starts || l == lives[2] && at >= lives[3].starts {
					continue
				}
				if line.Kind == decisions.Applied {
					line.At = int64(at) + int64(i)*int64(40*time.Millisecond)
				}
				l.tell(line)
			}
		case line.Kind == decisions.Asked:
			l := lives[line.Call%3]
			if l == lives[2] && at >= lives[3].starts {
				l = lives[3]
			}
			if at < l.starts {
				l = lives[0]
			}
			of[line.Call] = l
			l.tell(line)
		case line.Call > 0:
			of[line.Call].tell(line)
		}
	}
	lines := make([][]decisions.Line, 3)
	for _, l := range lives {
		lines[l.log] = append(lines[l.log], l.lines...)
	}
	var logs []Log
	for i, list := range lines {
		logs = append(logs, logOf(t, fmt.Sprint("log ", i), list))
	}
	return logs
}

// What one gateway decided, written down as if by three that share its limits, is decided as it was by
// it, to the nanosecond; and a candidate changes what it would have changed there.
func TestCompare_GatewaysAsOne(t *testing.T) {
	for _, accounting := range []escrow.Accounting{escrow.AdmitMax, escrow.Production, escrow.Settled} {
		testkit.Virtual(t, fmt.Sprint(accounting), func(t *testing.T) {
			cfg := busyConfig(accounting)
			cfg.Tenants[5].Budgets = nil // it is gone in the reload, and with it what it used
			path := filepath.Join(t.TempDir(), "decisions.jsonl")
			recordedIn(t, path, cfg, func(g *governor.Governor) {
				go func() {
					time.Sleep(90 * time.Second)
					until := time.Now().Add(time.Minute)
					g.Throttle("p", []governor.Cut{{Part: governor.Whole / 3 * 3, Until: time.Now().Add(2 * time.Second)}, {TPM: 6000, RPM: 60, Until: until}})
					time.Sleep(4 * time.Minute)
					fewer := cfg
					fewer.Revision = "fewer"
					fewer.Pools = slices.Clone(cfg.Pools)
					fewer.Pools[0].TPM /= 2
					if err := g.Apply(fewer); err != nil {
						panic(err)
					}
				}()
				minutes(g, 4)
			})
			candidate := Policy{Governor: busyConfig(accounting)}
			candidate.Governor.Tenants[0].TPM /= 2
			one := testkit.Must(ReadLog(path, decisions.Read(decisions.Files(path))))(t)
			want := testkit.Must(Compare([]Log{one}, candidate))(t)
			got := testkit.Must(Compare(split(t, path), candidate))(t)
			_ = got.Write(t.Output())
			if got.Differ+got.Inexact > 0 || got.Exact || !got.Shared || got.Calls != want.Calls || got.Reloads != 1 {
				t.Errorf("of %d calls (of %d) %d come out otherwise and %d at another time; %d reloads", got.Calls, want.Calls, got.Differ, got.Inexact, got.Reloads)
			}
			if byRequest(got) != byRequest(want) || len(want.Flips) < 10 {
				t.Errorf("the candidate changes\n%s\nand where one decided\n%s", byRequest(got), byRequest(want))
			}
		})
	}
}

// byRequest is what flips, as text.
func byRequest(r *Report) (text string) {
	slices.SortFunc(r.Flips, func(a, b Flip) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Request, b.Request)) })
	for _, f := range r.Flips {
		text += fmt.Sprintln(f.At.UnixNano(), f.Request, f.Tenant, f.Before, f.After)
	}
	return text
}
