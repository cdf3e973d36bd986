package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

func counter(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, labels)
}

// native is a histogram of seconds that has native buckets too, for Prometheus
// servers that scrape them.
func native(name, help string, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: namespace, Name: name, Help: help, Buckets: seconds,
		NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 100, NativeHistogramMinResetDuration: time.Hour,
	}, labels)
}

func histogram(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: namespace, Name: name, Help: help, Buckets: buckets}, labels)
}

// seconds are buckets for LLM calls, which last from a fraction of a second to minutes.
var seconds = []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 7.5, 10, 15, 20, 30, 45, 60, 120, 300}

// scraped writes metrics of what it reads at each scrape. Which these are is seen then.
type scraped func(ch chan<- prometheus.Metric)

// Describe implements prometheus.Collector, of one that is not described ahead.
func (scraped) Describe(chan<- *prometheus.Desc) {}

func (f scraped) Collect(ch chan<- prometheus.Metric) { f(ch) }

// watch registers a gauge that is read at each scrape.
func (m *Metrics) watch(name, help string, value func() float64) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: namespace, Name: name, Help: help}, value))
}

// watchCount is the same for a counter.
func (m *Metrics) watchCount(name, help string, value func() float64) {
	m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, value))
}

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(prometheus.BuildFQName(namespace, "", name), help, labels, nil)
}

const namespace = "llmgov"
