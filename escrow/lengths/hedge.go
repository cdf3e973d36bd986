package lengths

import "math"

// Hedge predicts the weighted mean of its experts' predictions (Freund and Schapire
// 1997). Each has the weight exp(-eta × all its losses so far), so that the mixture
// is not much worse than the best of them, whichever that turns out to be. The
// loss is the distance of the logarithms: twice too long is as bad as half.
type Hedge struct {
	eta     float64
	experts []Predictor
	losses  []float64 // less the least of them
}

// defaultEta shifts weights by a factor of e after some hundred calls in which
// one expert is off by a factor of e more than another.
const defaultEta = 0.01

// NewHedge returns a Hedge over some experts, which begin equal. eta ≤ 0 is the
// default, 0.01.
func NewHedge(eta float64, experts ...Predictor) *Hedge {
	if eta <= 0 {
		eta = defaultEta
	}
	return &Hedge{eta: eta, experts: experts, losses: make([]float64, len(experts))}
}

// Hint tells every expert that listens the predictions of others for the call that is
// predicted, or observed, next.
func (h *Hedge) Hint(x int64) {
	for _, e := range h.experts {
		if e, ok := e.(interface{ Hint(int64) }); ok {
			e.Hint(x)
		}
	}
}

// Predict implements Predictor, rounding up; 0 without experts.
func (h *Hedge) Predict() int64 {
	sum := 0.0
	weights := 0.0
	for i, e := range h.experts {
		w := math.Exp(-h.eta * h.losses[i])
		sum += w * float64(e.Predict())
		weights += w
	}
	if weights == 0 {
		return 0
	}
	return int64(math.Ceil(sum / weights))
}

// Observe implements Predictor.
func (h *Hedge) Observe(actual int64) {
	least := math.Inf(1)
	for i, e := range h.experts {
		off := math.Log1p(float64(max(e.Predict(), 0))) - math.Log1p(float64(max(actual, 0)))
		h.losses[i] += math.Abs(off)
		least = min(least, h.losses[i])
		e.Observe(actual)
	}
	for i := range h.losses {
		h.losses[i] -= least // weights are relative; so no sum grows without end
	}
}
