package load

import (
	"strconv"
	"time"
)

// text is a time for people.
func text(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second))
	switch {
	case d < 100*time.Microsecond:
		return strconv.FormatInt(d.Microseconds(), 10) + " µs"
	case d < 10*time.Millisecond:
		return strconv.FormatFloat(seconds*1e3, 'f', 2, 64) + " ms"
	case d < time.Second:
		return strconv.FormatFloat(seconds*1e3, 'f', 0, 64) + " ms"
	case d < 100*time.Second:
		return strconv.FormatFloat(seconds, 'f', 2, 64) + " s"
	}
	return strconv.FormatFloat(seconds, 'f', 0, 64) + " s"
}

// five are the quantiles that tables show; dashes without a measurement.
func (q *Quantiles) five() [5]string {
	if q == nil {
		return [5]string{"–", "–", "–", "–", "–"}
	}
	return [5]string{text(q.P50), text(q.P90), text(q.P99), text(q.P999), text(q.Max)}
}

func percent(x float64) string { return strconv.FormatFloat(100*x, 'f', 1, 64) + " %" }

// rate is a number a second.
func rate(x float64) string {
	if x < 100 {
		return strconv.FormatFloat(x, 'f', 1, 64)
	}
	return strconv.FormatFloat(x, 'f', 0, 64)
}
