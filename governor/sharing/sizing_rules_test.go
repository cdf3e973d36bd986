package sharing

import "math"

// rule says how much of a limit a gateway holds in advance of its calls, beyond its usage and the calls in
// line. It is for one gateway.
type rule interface {
	// second tells what the calls of the last second cost, and what those of the next one will.
	second(last, next float64)
	// size is how much to hold.
	size() float64
}

// linear holds so many seconds' worth at the rate of the last three seconds or so.
type linear struct{ seconds, rate float64 }

func (l *linear) second(last, _ float64) { l.rate += (last - l.rate) / aheadSeconds }

func (l *linear) size() float64 { return l.seconds * l.rate }

// eoq is the cost of holding b for a second in which calls cost demand: demand/b orders, and b/2 idle on
// average. An order costs as much as price units that lie idle for a second.
func eoq(demand, b, price float64) float64 { return demand/b + b/(2*price) }

// eoqSize is the economic order quantity: the cheapest b.
func eoqSize(demand, price float64) float64 { return max(1, math.Sqrt(2*price*demand)) }

// order is the earlier system's online learner of the economic order quantity: AdaGrad on the logarithm of
// b, with its defaults.
type order struct {
	price     float64
	log       float64 // of b
	gradients float64 // sum of squares
}

const orderMost = 1e6

func (o *order) second(last, _ float64) {
	b := o.size()
	gradient := b/(2*o.price) - last/b
	o.gradients += gradient * gradient
	step := math.Log(orderMost) / math.Sqrt(1e-8+o.gradients)
	o.log = min(max(o.log-step*gradient, 0), math.Log(orderMost))
}

func (o *order) size() float64 { return math.Exp(o.log) }

// hedge is the earlier system's predictor: it mixes the economic order quantity of the predicted demand
// with that of the learner, by what each would have cost so far.
type hedge struct {
	learner order
	told    bool // of the next second; otherwise it predicts that this is like the last
	follow  float64
	losses  [2]float64 // of follow and of the learner
}

func (h *hedge) second(last, next float64) {
	h.losses[0] += eoq(last, max(1, h.follow), h.learner.price)
	h.losses[1] += eoq(last, h.learner.size(), h.learner.price)
	h.learner.second(last, next)
	predicted := last
	if h.told {
		predicted = next
	}
	h.follow = eoqSize(predicted, h.learner.price)
}

func (h *hedge) size() float64 {
	const eta = 0.01
	trust := 1 / (1 + math.Exp(-eta*(h.losses[1]-h.losses[0])))
	return trust*h.follow + (1-trust)*h.learner.size()
}
