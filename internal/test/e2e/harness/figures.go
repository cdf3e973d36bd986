package harness

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/llmgov/llmgov/internal/ops/telemetry"
)

// Charged sums llmgov_tokens_total over a kind and tenant; an empty tenant is all.
func (s *Stack) Charged(tenant, kind string) int64 {
	return s.Sum("llmgov_tokens_total", map[string]string{"tenant": tenant, "kind": kind})
}

// Sum adds up the series of a counter or a gauge whose labels match; an empty value
// matches all.
func (s *Stack) Sum(name string, labels map[string]string) int64 {
	s.T.Helper()
	return Counted(s.T, s.Metrics, name, labels)
}

// Counted is Sum over the metrics of a gateway without a stack.
func Counted(t *testing.T, m *telemetry.Metrics, name string, labels map[string]string) int64 {
	t.Helper()
	families, err := prometheus.Gatherers{m.Registry()}.Gather()
	if err != nil {
		t.Fatal(err)
	}
	total := 0.0
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			if matches(m.GetLabel(), labels) {
				total += m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return int64(total)
}

func matches(have []*dto.LabelPair, want map[string]string) bool {
	for _, l := range have {
		if v := want[l.GetName()]; v != "" && v != l.GetValue() {
			return false
		}
	}
	return true
}

// CheckIdle fails unless nothing runs, waits or is held anywhere.
func (s *Stack) CheckIdle() {
	s.T.Helper()
	time.Sleep(10 * time.Millisecond) // until then the connection of a call that has just begun is not watched
	synctest.Wait()                   // who has gone has been seen to go
	if running, waiting := s.Governor.Leases(); running != 0 || waiting != 0 {
		s.T.Errorf("%d leases run and %d calls wait when all is over", running, waiting)
	}
	for _, ts := range s.Governor.State().Tenants {
		if ts.Running != 0 || ts.InLine != 0 {
			s.T.Errorf("tenant %s: %d run and %d stand in line when all is over", ts.Config.Name, ts.Running, ts.InLine)
		}
	}
	if n := s.Sum("llmgov_body_memory_bytes", nil); n != 0 {
		s.T.Errorf("bodies have %d bytes of memory when all is over", n)
	}
	if st := s.Mock.Stats(); st.Running != 0 || st.Queued != 0 {
		s.T.Errorf("the model server still runs %d and queues %d", st.Running, st.Queued)
	}
}

// Series counts the series of a tenant.
func (s *Stack) Series(tenant string) int {
	s.T.Helper()
	families, err := s.Metrics.Registry().Gather()
	if err != nil {
		s.T.Fatal(err)
	}
	n := 0
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, label := range m.GetLabel() {
				if label.GetName() == "tenant" && label.GetValue() == tenant {
					n++
				}
			}
		}
	}
	return n
}
