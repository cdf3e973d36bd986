package harness

import (
	"log/slog"
	"path/filepath"
	"testing"

	"github.com/llmgov/llmgov/internal/lab/plan"
	"github.com/llmgov/llmgov/internal/ops/decisions"
	"github.com/llmgov/llmgov/tenants"
)

// Record is the decision log of a stack.
type Record struct {
	Path string
	log  *decisions.Writer
}

// Record has the decisions of a stack written to a file, which lasts as long as t.
func (w *World) Record(t *testing.T) *Record {
	t.Helper()
	r := &Record{Path: filepath.Join(t.TempDir(), "decisions.jsonl")}
	var err error
	if r.log, err = decisions.Open(decisions.Options{Path: r.Path, MaxSize: 4 << 20, Keep: 99, Log: slog.New(slog.DiscardHandler)}); err != nil {
		t.Fatal(err)
	}
	w.Recorder = r.log
	return r
}

// End closes the stack and reads its decisions, of which none may be lost.
func (r *Record) End(s *Stack) plan.Log {
	s.T.Helper()
	s.Close()
	if err := r.log.Close(); err != nil || r.log.Lost() > 0 {
		s.T.Fatalf("%d lines are lost, %v", r.log.Lost(), err)
	}
	log, err := plan.ReadLog(r.Path, decisions.Read(decisions.Files(r.Path)))
	if err != nil {
		s.T.Fatal(err)
	}
	return log
}

// DecidedAgain decides recorded calls by a policy.
func DecidedAgain(t *testing.T, log plan.Log, snap *tenants.Snapshot) *plan.Report {
	t.Helper()
	report, err := plan.Compare([]plan.Log{log}, plan.Candidate(snap))
	if err != nil {
		t.Fatal(err)
	}
	return report
}
