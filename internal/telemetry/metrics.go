package telemetry

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

const namespace = "llmgov"

// Outcomes of a request, the label of requests_total.
const (
	OK        = "ok"        // the upstream's answer was passed on, whatever its status
	Refused   = "refused"   // by llmgov; the reason says why
	Cancelled = "cancelled" // the client went away
	Failed    = "failed"    // the upstream failed, or broke off
)

// Kinds of tokens, the label of tokens_total.
const (
	held        = "held"
	input       = "input"
	cachedInput = "cached_input"
	output      = "output"
	reasoning   = "reasoning"
	refunded    = "refunded"
)

var kinds = []string{held, input, cachedInput, output, reasoning, refunded}

// Metrics is one registry with all of llmgov's metrics.
type Metrics struct {
	registry *prometheus.Registry

	requests       *prometheus.CounterVec
	tokens         *prometheus.CounterVec
	shadowRefused  *prometheus.CounterVec
	queueWait      *prometheus.HistogramVec
	firstToken     *prometheus.HistogramVec
	duration       *prometheus.HistogramVec
	estimateError  *prometheus.HistogramVec
	cancelled      *prometheus.CounterVec
	upstreamErrors *prometheus.CounterVec

	// Overhead is the time that llmgov itself adds to a request before the
	// upstream sees it, waiting not counted.
	Overhead prometheus.Histogram
	// Expired is leases that nobody ended in time.
	Expired prometheus.Counter

	life    life
	policy  policy
	sharing sharing
}

// LLM calls last from a fraction of a second to minutes.
var seconds = []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 7.5, 10, 15, 20, 30, 45, 60, 120, 300}

// New returns an empty registry, with the Go runtime's own metrics beside.
func New() *Metrics {
	m := &Metrics{
		registry:       prometheus.NewRegistry(),
		requests:       counter("requests_total", "Requests by outcome; reason says why one was refused or failed.", "tenant", "tier", "pool", "outcome", "reason"),
		tokens:         counter("tokens_total", "Tokens by kind; reasoning is part of output, cached_input of input.", "tenant", "tier", "pool", "kind"),
		shadowRefused:  counter("shadow_refused_total", "Calls of tenants in shadow that went although a limit would have refused them, by its reason.", "tenant", "tier", "pool", "reason"),
		queueWait:      native("queue_wait_seconds", "Time from the request's arrival at the limits to its admission.", "tier", "pool"),
		firstToken:     native("time_to_first_token_seconds", "Time from admission to the first token of a stream.", "pool"),
		duration:       native("request_duration_seconds", "Time from admission to the end of the answer.", "pool"),
		estimateError:  histogram("estimate_error_ratio", "Tokens held divided by tokens really taken, of calls whose usage was reported.", []float64{.25, .5, .8, .9, 1, 1.1, 1.25, 2, 4, 10, 30, 100}, "pool"),
		cancelled:      counter("client_cancelled_total", "Calls whose client went away after admission.", "pool"),
		upstreamErrors: counter("upstream_errors_total", "Calls that the upstream failed.", "pool", "class"),
		Overhead: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: namespace, Name: "overhead_seconds", Help: "Time that llmgov adds before the upstream sees a request, waiting not counted.",
			Buckets: []float64{10e-6, 25e-6, 50e-6, 100e-6, 250e-6, 500e-6, 1e-3, 2.5e-3, 10e-3, 100e-3, 1},
		}),
		Expired: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: namespace, Name: "lease_expired_total", Help: "Leases that nobody ended in time: of answers that fell silent, and of calls in flight when the process before this one died.",
		}),
		life: newLife(), policy: newPolicy(), sharing: newSharing(),
	}
	m.policy.register(m.registry)
	m.registry.MustRegister(m.requests, m.tokens, m.shadowRefused, m.queueWait, m.firstToken, m.duration, m.estimateError, m.cancelled, m.upstreamErrors, m.Overhead, m.Expired,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

func counter(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, labels)
}

// native is a histogram of seconds that has native buckets, too, for those Prometheus
// servers that ask for them.
func native(name, help string, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: namespace, Name: name, Help: help, Buckets: seconds,
		NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 100, NativeHistogramMinResetDuration: time.Hour,
	}, labels)
}

func histogram(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: namespace, Name: name, Help: help, Buckets: buckets}, labels)
}

// Registry is where the metrics are, for tests and for more collectors.
func (m *Metrics) Registry() *prometheus.Registry { return m.registry }

// Handler serves /metrics: as OpenMetrics, which has exemplars, to who asks for it.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{Registry: m.registry, EnableOpenMetrics: true})
}
