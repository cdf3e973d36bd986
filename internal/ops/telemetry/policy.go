package telemetry

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// policy has the metrics of the policy in force, and of the last reading of the files.
type policy struct {
	success, since prometheus.Gauge
	revision       *prometheus.GaugeVec

	mu   sync.Mutex
	hash string
}

func newPolicy() policy {
	return policy{
		success: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: namespace, Name: "policy_reload_success", Help: "Whether the files were valid at their last reading. While they are not, the previous policy stays in force.",
		}),
		since: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: namespace, Name: "policy_reload_timestamp_seconds", Help: "Time at which the policy in force was applied.",
		}),
		revision: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: namespace, Name: "policy_revision_info", Help: "The policy in force, by its hash.",
		}, []string{"hash"}),
	}
}

func (p *policy) register(r *prometheus.Registry) { r.MustRegister(p.success, p.since, p.revision) }

// PolicyInForce records the policy in force.
func (m *Metrics) PolicyInForce(hash string, at time.Time) {
	p := &m.policy
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.hash != hash {
		p.revision.DeleteLabelValues(p.hash)
		p.hash = hash
	}
	p.revision.WithLabelValues(hash).Set(1)
	p.since.Set(float64(at.UnixMilli()) / 1000)
	p.success.Set(1)
}

// PolicyRead records whether the files were valid at their last reading.
func (m *Metrics) PolicyRead(good bool) {
	m.policy.success.Set(number(good))
}
