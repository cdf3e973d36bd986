package load

import (
	"math"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Measure is one kind of time measured of calls.
type Measure int

// The measures. Those with Due count from the time at which a call was due, those with Sent from
// its last sending.
const (
	Late Measure = iota // from due to first sent: this side's own delay
	HeadersDue
	HeadersSent
	TTFTDue // first part of a streamed answer
	TTFTSent
	LatencyDue // the whole answer
	LatencySent
	Between   // parts of a stream
	ToRefusal // from sent to a refusal
	Hint      // the wait that refusals ask for
	numMeasures
)

const (
	// Times are kept in microseconds. Longer ones count as the longest.
	shortest, longest = 1, int64(time.Hour / time.Microsecond)
	digits            = 3
)

// times are the times of some calls.
type times [numMeasures]*hdrhistogram.Histogram

func (t *times) record(m Measure, d time.Duration) {
	if t[m] == nil {
		t[m] = hdrhistogram.New(shortest, longest, digits)
	}
	record(t[m], d)
}

// span records the time between two instants, if both came.
func (t *times) span(m Measure, from, to time.Duration) {
	if from != never && to != never {
		t.record(m, to-from)
	}
}

// merge adds the times of other calls.
func (t *times) merge(other *times) {
	for m, h := range other {
		if h == nil {
			continue
		}
		if t[m] == nil {
			t[m] = hdrhistogram.New(shortest, longest, digits)
		}
		t[m].Merge(h)
	}
}

// record cannot fail, because times out of range are cut.
func record(h interface{ RecordValue(v int64) error }, d time.Duration) {
	_ = h.RecordValue(min(max(d.Microseconds(), 0), longest))
}

// Quantiles are the figures of a measure.
type Quantiles struct {
	Count int64   `json:"count"`
	Mean  float64 `json:"mean_seconds"`
	P50   float64 `json:"p50_seconds"`
	P90   float64 `json:"p90_seconds"`
	P99   float64 `json:"p99_seconds"`
	P999  float64 `json:"p99_9_seconds"`
	Max   float64 `json:"max_seconds"`
}

// quantiles is nil without a measurement.
func quantiles(h *hdrhistogram.Histogram) *Quantiles {
	if h == nil || h.TotalCount() == 0 {
		return nil
	}
	at := h.ValueAtPercentilesSlice([]float64{50, 90, 99, 99.9})
	return &Quantiles{
		Count: h.TotalCount(), Mean: math.Round(h.Mean()) / 1e6, Max: inSeconds(h.Max()),
		P50: inSeconds(at[0]), P90: inSeconds(at[1]), P99: inSeconds(at[2]), P999: inSeconds(at[3]),
	}
}

func inSeconds(micros int64) float64 { return float64(micros) / 1e6 }
