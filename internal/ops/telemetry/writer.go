package telemetry

import "github.com/prometheus/client_golang/prometheus"

// writer writes series that are read from the books, with the sum of those of tenants that
// have none of their own.
type writer struct {
	ch     chan<- prometheus.Metric
	crowd  crowd
	others map[otherSeries]float64
}

// otherSeries is a series of Other.
type otherSeries struct {
	desc       *prometheus.Desc
	kind       prometheus.ValueType
	pool, axis string
}

func (w *writer) write(d *prometheus.Desc, kind prometheus.ValueType, v float64, labels ...string) {
	w.ch <- prometheus.MustNewConstMetric(d, kind, v, labels...)
}

// gauge writes a gauge of a tenant, in a pool or in all, with an axis if given.
func (w *writer) gauge(d *prometheus.Desc, v float64, tenant, pool string, axis ...string) {
	w.ofTenant(d, prometheus.GaugeValue, v, tenant, pool, axis)
}

// counter is the same for counters.
func (w *writer) counter(d *prometheus.Desc, v float64, tenant, pool string) {
	w.ofTenant(d, prometheus.CounterValue, v, tenant, pool, nil)
}

func (w *writer) ofTenant(d *prometheus.Desc, kind prometheus.ValueType, v float64, tenant, pool string, axis []string) {
	if w.crowd.name(tenant, pool) != Other {
		w.write(d, kind, v, append([]string{tenant, pool}, axis...)...)
		return
	}
	o := otherSeries{desc: d, kind: kind, pool: pool}
	if len(axis) > 0 {
		o.axis = axis[0]
	}
	w.others[o] += v
}

// flush writes the sums.
func (w *writer) flush() {
	for o, v := range w.others {
		labels := []string{Other, o.pool}
		if o.axis != "" {
			labels = append(labels, o.axis)
		}
		w.write(o.desc, o.kind, v, labels...)
	}
}
