package telemetry

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// policy is which policy is in force, and whether what the files say could be taken
// over.
type policy struct {
	success, since prometheus.Gauge
	revision       *prometheus.GaugeVec

	mu   sync.Mutex
	hash string
}

func newPolicy() policy {
	return policy{
		success: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: namespace, Name: "policy_reload_success", Help: "Whether the files were good when they were last read. While they are not, the last good policy stays in force.",
		}),
		since: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: namespace, Name: "policy_reload_timestamp_seconds", Help: "When the policy in force was taken over.",
		}),
		revision: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: namespace, Name: "policy_revision_info", Help: "The policy in force, by its hash.",
		}, []string{"hash"}),
	}
}

func (p *policy) register(r *prometheus.Registry) { r.MustRegister(p.success, p.since, p.revision) }

// PolicyInForce says that the policy of this hash has been taken over.
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

// PolicyRead says whether the files were good when they were last read.
func (m *Metrics) PolicyRead(good bool) {
	value := 0.0
	if good {
		value = 1
	}
	m.policy.success.Set(value)
}
