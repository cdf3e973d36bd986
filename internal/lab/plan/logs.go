package plan

import (
	"fmt"
	"slices"
	"time"
)

// Log is the decision log of one gateway.
type Log struct {
	Path string
	Runs []*Run
}

// LogReport is the extent of a log.
type LogReport struct {
	Path  string    `json:"path"`
	From  time.Time `json:"from"`
	To    time.Time `json:"to"`
	Calls int       `json:"calls"`
	// Nodes are the names that its gateway had, and Starts how often it was started.
	Nodes  []string `json:"nodes"`
	Starts int      `json:"starts"`
	// Apart says that no other log tells of the same time.
	Apart bool `json:"apart"`
}

// Missing is a gateway that others saw share the limits while no log tells of it.
type Missing struct {
	Node string    `json:"node"`
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
}

// sharedOf are the runs of logs in which limits were shared, and those in which none were.
func sharedOf(logs []Log) (shared, alone []*Run) {
	for _, l := range logs {
		for _, r := range l.Runs {
			if r.Start.Shared {
				shared = append(shared, r)
			} else {
				alone = append(alone, r)
			}
		}
	}
	return shared, alone
}

// checkTwice reports that a run is in two logs.
func checkTwice(logs []Log) error {
	type life struct {
		node string
		at   int64
	}
	in := map[life]string{}
	for _, l := range logs {
		for _, r := range l.Runs {
			k := life{r.Start.Node, r.Start.Time.UnixNano()}
			if other, ok := in[k]; ok && other != l.Path {
				return fmt.Errorf("%s and %s are logs of the same gateway, started at %s; give each log once", other, l.Path, r.Start.Time.Format(time.RFC3339Nano))
			}
			in[k] = l.Path
		}
	}
	return nil
}

// logReports are the extents of logs.
func logReports(logs []Log) []LogReport {
	out := []LogReport{}
	for _, l := range logs {
		first := l.Runs[0]
		last := l.Runs[len(l.Runs)-1]
		o := LogReport{Path: l.Path, From: first.begins(), To: last.ends(), Nodes: []string{}}
		for _, r := range l.Runs {
			o.Calls += len(r.Calls)
			if !r.Late {
				o.Starts++
			}
			if r.Start.Node != "" && !slices.Contains(o.Nodes, r.Start.Node) {
				o.Nodes = append(o.Nodes, r.Start.Node)
			}
		}
		out = append(out, o)
	}
	for i := range out {
		out[i].Apart = len(out) > 1 && !slices.ContainsFunc(out, func(o LogReport) bool {
			return o.Path != out[i].Path && !o.From.After(out[i].To) && !o.To.Before(out[i].From)
		})
	}
	return out
}

// marksApart is how far the times may be apart by which one gateway has seen another one, and that
// one says that it was there: it writes a line each minute, and clocks differ.
const marksApart = 75 * time.Second

// missingFrom are the gateways that were seen though no run is theirs, as of a time.
func missingFrom(runs []*Run, from time.Time) []Missing {
	covers := map[string][]*Run{}
	for _, r := range runs {
		covers[r.Start.Node] = append(covers[r.Start.Node], r)
	}
	out := []Missing{}
	for _, r := range runs {
		for i, s := range r.seen {
			m := Missing{From: r.Start.Time.Add(time.Duration(s.at)), To: r.ends()}
			if i+1 < len(r.seen) {
				m.To = r.Start.Time.Add(time.Duration(r.seen[i+1].at))
			}
			for _, m.Node = range s.nodes {
				if m.From.Before(from) {
					m.From = from
				}
				if gap, ok := m.uncovered(covers[m.Node]); ok && !gap.To.Before(from) {
					out = noted(out, gap)
				}
			}
		}
	}
	slices.SortFunc(out, func(a, b Missing) int { return a.From.Compare(b.From) })
	return out
}

// uncovered is the time in which a gateway was seen and none of its runs has records.
func (m Missing) uncovered(runs []*Run) (Missing, bool) {
	slices.SortFunc(runs, func(a, b *Run) int { return a.begins().Compare(b.begins()) })
	for _, r := range runs {
		from := r.begins().Add(-marksApart)
		to := r.ends().Add(marksApart)
		if from.After(m.From) {
			if from.Before(m.To) {
				m.To = from
			}
			return m, true
		}
		if to.After(m.From) {
			m.From = to
		}
		if !m.From.Before(m.To) {
			return m, false
		}
	}
	return m, true
}

// noted adds the gaps of one gateway to a list, in which each is once.
func noted(list []Missing, m Missing) []Missing {
	for i := range list {
		o := &list[i]
		if o.Node != m.Node {
			continue
		}
		if m.From.Before(o.From) {
			o.From = m.From
		}
		if m.To.After(o.To) {
			o.To = m.To
		}
		return list
	}
	return append(list, m)
}
