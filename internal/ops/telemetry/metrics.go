package telemetry

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
)

// Outcomes of a request, the label of requests_total.
const (
	OK        = "ok"        // the upstream's answer was passed on, whatever its status
	Refused   = "refused"   // by llmgov, for the reason in the label
	Cancelled = "cancelled" // the client left
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
	usd            *prometheus.CounterVec
	estimatedUSD   *prometheus.CounterVec
	shadowRefused  *prometheus.CounterVec
	queueWait      *prometheus.HistogramVec
	firstToken     *prometheus.HistogramVec
	duration       *prometheus.HistogramVec
	estimateError  *prometheus.HistogramVec
	cancelled      *prometheus.CounterVec
	unread         *prometheus.CounterVec
	upstreamErrors *prometheus.CounterVec

	// Overhead is the time that llmgov itself adds to a request before the
	// upstream sees it, without waiting.
	Overhead prometheus.Histogram
	// Expired counts leases that were not ended in time.
	Expired prometheus.Counter

	series  seriesTable
	spent   func(tenant string, t Taken) // the account of spend; nil is none
	policy  policy
	sharing sharing
}

// New returns an empty registry with the metrics of the Go runtime.
func New() *Metrics {
	m := &Metrics{
		registry:       prometheus.NewRegistry(),
		requests:       counter("requests_total", "Requests by outcome; reason is the cause of a refusal or failure.", "tenant", "tier", "pool", "outcome", "reason"),
		tokens:         counter("tokens_total", "Tokens by kind; reasoning is part of output, cached_input of input.", "tenant", "tier", "pool", "model", "kind"),
		usd:            counter("spend_usd_total", "What calls cost, of models that have prices.", "tenant", "tier", "pool", "model"),
		estimatedUSD:   counter("spend_estimated_usd_total", "The part of spend_usd_total of calls whose usage was estimated, because the upstream did not report it.", "tenant", "tier", "pool", "model"),
		shadowRefused:  counter("shadow_refused_total", "Calls of tenants in shadow that were admitted although a limit would have refused them, by its reason.", "tenant", "tier", "pool", "reason"),
		queueWait:      native("queue_wait_seconds", "Time from the request's arrival at the limits to its admission.", "tier", "pool"),
		firstToken:     native("time_to_first_token_seconds", "Time from admission to the first token of a stream.", "pool"),
		duration:       native("request_duration_seconds", "Time from admission to the end of the answer.", "pool"),
		estimateError:  histogram("estimate_error_ratio", "Tokens held divided by tokens used, of calls whose usage was reported.", []float64{.25, .5, .8, .9, 1, 1.1, 1.25, 2, 4, 10, 30, 100}, "pool"),
		cancelled:      counter("client_cancelled_total", "Calls whose client left after admission.", "pool"),
		unread:         counter("usage_unread_total", "Whole answers that told no usage which could be read, so that it was estimated.", "pool"),
		upstreamErrors: counter("upstream_errors_total", "Calls that the upstream failed.", "pool", "class"),
		Overhead: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: namespace, Name: "overhead_seconds", Help: "Time that llmgov adds before the upstream sees a request, without waiting.",
			Buckets: []float64{10e-6, 25e-6, 50e-6, 100e-6, 250e-6, 500e-6, 1e-3, 2.5e-3, 10e-3, 100e-3, 1},
		}),
		Expired: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: namespace, Name: "lease_expired_total", Help: "Leases that were not ended in time: of answers that fell silent, and of calls in flight when the previous process died.",
		}),
		series: newSeriesTable(), policy: newPolicy(), sharing: newSharing(),
	}
	m.policy.register(m.registry)
	m.registry.MustRegister(m.requests, m.tokens, m.usd, m.estimatedUSD, m.shadowRefused, m.queueWait, m.firstToken, m.duration, m.estimateError, m.cancelled, m.unread, m.upstreamErrors, m.Overhead, m.Expired,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// SpendTo has the account of spend count whatever accounts do, from now on. Call it before there are calls.
func (m *Metrics) SpendTo(f func(tenant string, t Taken)) { m.spent = f }

// Registry has all metrics, for tests and for more collectors.
func (m *Metrics) Registry() *prometheus.Registry { return m.registry }

// Gather is prometheus.Gatherer's, of all metrics as they are now.
func (m *Metrics) Gather() ([]*dto.MetricFamily, error) {
	m.hush(time.Now())
	return m.registry.Gather()
}

// Handler serves /metrics, as OpenMetrics with exemplars if the request accepts it.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m, promhttp.HandlerOpts{Registry: m.registry, EnableOpenMetrics: true})
}
