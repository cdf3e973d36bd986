package simulate

import (
	"bytes"
	"encoding/json"
	"math"

	"github.com/llmgov/llmgov/escrow"
)

// Value is a figure. NaN is "does not apply", null in JSON.
type Value float64

var none = Value(math.NaN())

// Known says whether the figure applies.
func (v Value) Known() bool { return !math.IsNaN(float64(v)) }

// MarshalJSON writes null for a figure that does not apply.
func (v Value) MarshalJSON() ([]byte, error) {
	if !v.Known() || math.IsInf(float64(v), 0) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(v))
}

// Figures are the results of a run, or of all runs of a scenario. Ratios are 0 to 1.
type Figures struct {
	// Utilization is the used part of the limit; on several axes, of the one that
	// was used most.
	Utilization Value
	// Misallocation is half the distance (L1) between the usage of leaves and
	// their shares by the fluid oracle, as a part of the latter, per window of 60 s;
	// the mean over windows, and the most.
	Misallocation, MisallocationMax Value
	// MisallocationWhole is that of a scheduler which knows what the fluid oracle gives, and serves whole calls.
	MisallocationWhole Value
	// MisallocationOfUsed is the same against the fair split of the amount that
	// was used in the window, so that idle capacity does not count.
	MisallocationOfUsed Value
	// MisallocationClairvoyant is against the oracle that knows the window's demand
	// beforehand; FluidMisallocationClairvoyant is that of the fluid oracle itself.
	MisallocationClairvoyant, FluidMisallocationClairvoyant Value
	// LongRunDeviation is how far the leaf that is furthest from the oracle is, as
	// a part of what the oracle gave it, over the whole run.
	LongRunDeviation Value
	// Jain is Jain's index of received over entitled.
	Jain Value
	// Fullest is, by axis, the largest sum over any 60 s, from the start, over the limit; of slots the most at once.
	Fullest [escrow.Rolling + 1]Value
	// UpstreamsMax is the largest use of an upstream's own limit, of any axis.
	UpstreamsMax Value
	// Spilled is the part of all tokens that went to upstreams beyond the lowest order, and SpillFull how full those of lower orders
	// were then: the used part of their limit.
	Spilled, SpillFull Value
	// CacheCalls is the part of the calls that go on with a conversation whose upstream had all that was said before, and CacheTokens
	// the part of all tokens of prompts in conversations that upstreams had.
	CacheCalls, CacheTokens Value
	// Recovery is the longest time from a change of what upstreams there are until nearly all of them is used.
	Recovery Value
	// FirstAdmission is the longest that a tenant which turned heavy waited for its
	// first request; FiveSecondsWorth until it had its share of 5 s.
	FirstAdmission, FiveSecondsWorth Value
	WaitP50, WaitP99                 Value
	// WaitedOver100ms and WaitedOver250ms are the parts of the admitted requests that waited for longer.
	WaitedOver100ms, WaitedOver250ms Value
	// FirstTokenP95 is how long a call waits for its first token once it is admitted, at a server with a knee.
	FirstTokenP95 Value
	// Refused is the part of attempts that were refused; GivenUp the part of
	// requests that never were admitted, of those that came to an end.
	Refused, GivenUp Value
	// PromiseKept is the part of those who came back when told and were not refused
	// again; PromiseLateP95 how long they then waited in line.
	PromiseKept, PromiseLateP95 Value
	// StoreRoundTrips per 1000 admitted requests: a single node makes none.
	StoreRoundTrips Value
	// Used is the used part of the limit, by axis.
	Used [escrow.Rolling + 1]Value
	// DominantMin and DominantMax are the least and the largest dominant share over
	// weight (relative to the mean) of leaves that are backlogged all along;
	// DominantRatio is the former over the latter: 1 is equality.
	DominantMin, DominantMax, DominantRatio Value
	// Requests and Admitted count requests and those that were admitted, after the
	// warm-up.
	Requests, Admitted Value
}

// over says how the figures of several seeds become one.
type over int

const (
	mean over = iota
	worst
)

// Unit says how a figure is shown.
type Unit int

const (
	Ratio   Unit = iota // shown as a percentage
	Factor              // a plain number
	Seconds             // infinite for never
	Count               // a whole number
)

// Figure describes one field of Figures: its name in JSON, its title in the
// table, and how it is made one over seeds.
type Figure struct {
	Key, Title string
	Of         func(*Figures) *Value
	over       over
	Unit       Unit
}

// AllFigures are the fields of Figures, in the order of tables and JSON.
var AllFigures = []Figure{
	{"utilization", "utilization of L", func(f *Figures) *Value { return &f.Utilization }, mean, Ratio},
	{"misallocation", "misallocation to fluid max-min, per minute", func(f *Figures) *Value { return &f.Misallocation }, mean, Ratio},
	{"misallocation_max", "  in the worst minute", func(f *Figures) *Value { return &f.MisallocationMax }, worst, Ratio},
	{"misallocation_whole_calls", "  that whole calls cannot avoid", func(f *Figures) *Value { return &f.MisallocationWhole }, mean, Ratio},
	{"misallocation_of_used", "  of what was used", func(f *Figures) *Value { return &f.MisallocationOfUsed }, mean, Ratio},
	{"misallocation_clairvoyant", "misallocation to clairvoyant max-min", func(f *Figures) *Value { return &f.MisallocationClairvoyant }, mean, Ratio},
	{"fluid_misallocation_clairvoyant", "  of the fluid oracle itself", func(f *Figures) *Value { return &f.FluidMisallocationClairvoyant }, mean, Ratio},
	{"long_run_deviation", "long-run deviation of the worst tenant", func(f *Figures) *Value { return &f.LongRunDeviation }, worst, Ratio},
	{"jain", "Jain's index of received / entitled", func(f *Figures) *Value { return &f.Jain }, mean, Factor},
	{"rolling_max", "largest rolling minute / L", func(f *Figures) *Value { return &f.Fullest[escrow.Tokens] }, worst, Factor},
	{"requests_rolling_max", "largest rolling minute of requests / limit", func(f *Figures) *Value { return &f.Fullest[escrow.Requests] }, worst, Factor},
	{"input_rolling_max", "largest rolling minute of input / limit", func(f *Figures) *Value { return &f.Fullest[escrow.Input] }, worst, Factor},
	{"output_rolling_max", "largest rolling minute of output / limit", func(f *Figures) *Value { return &f.Fullest[escrow.Output] }, worst, Factor},
	{"slots_max", "most slots at once / limit", func(f *Figures) *Value { return &f.Fullest[escrow.Slots] }, worst, Factor},
	{"upstreams_max", "largest use of an upstream / its limit", func(f *Figures) *Value { return &f.UpstreamsMax }, worst, Factor},
	{"spilled", "tokens that went beyond the first order", func(f *Figures) *Value { return &f.Spilled }, mean, Ratio},
	{"spill_full", "  how much of the lower orders was used then", func(f *Figures) *Value { return &f.SpillFull }, mean, Ratio},
	{"cache_calls", "calls that found all that was said before cached", func(f *Figures) *Value { return &f.CacheCalls }, mean, Ratio},
	{"cache_tokens", "  tokens of prompts that were cached", func(f *Figures) *Value { return &f.CacheTokens }, mean, Ratio},
	{"recovery_seconds_max", "from the loss or return of an upstream to full use", func(f *Figures) *Value { return &f.Recovery }, worst, Seconds},
	{"first_admission_seconds_max", "first admission of a returning tenant", func(f *Figures) *Value { return &f.FirstAdmission }, worst, Seconds},
	{"five_seconds_worth_max", "  until it had 5 s worth of its share", func(f *Figures) *Value { return &f.FiveSecondsWorth }, worst, Seconds},
	{"wait_p50_seconds", "wait p50", func(f *Figures) *Value { return &f.WaitP50 }, mean, Seconds},
	{"wait_p99_seconds", "wait p99", func(f *Figures) *Value { return &f.WaitP99 }, mean, Seconds},
	{"waited_over_100ms", "waited over 100 ms", func(f *Figures) *Value { return &f.WaitedOver100ms }, mean, Ratio},
	{"waited_over_250ms", "  over 250 ms", func(f *Figures) *Value { return &f.WaitedOver250ms }, mean, Ratio},
	{"first_token_p95_seconds", "first token p95, once admitted", func(f *Figures) *Value { return &f.FirstTokenP95 }, mean, Seconds},
	{"refused", "attempts refused", func(f *Figures) *Value { return &f.Refused }, mean, Ratio},
	{"given_up", "requests that gave up", func(f *Figures) *Value { return &f.GivenUp }, mean, Ratio},
	{"promise_kept", "promises kept (came back when told)", func(f *Figures) *Value { return &f.PromiseKept }, mean, Ratio},
	{"promise_late_p95_seconds", "  their second wait p95", func(f *Figures) *Value { return &f.PromiseLateP95 }, mean, Seconds},
	{"store_round_trips_per_1000", "store round trips per 1000 admitted", func(f *Figures) *Value { return &f.StoreRoundTrips }, mean, Count},
	{"tokens_utilization", "tokens used of the limit", func(f *Figures) *Value { return &f.Used[escrow.Tokens] }, mean, Ratio},
	{"requests_utilization", "requests used of the limit", func(f *Figures) *Value { return &f.Used[escrow.Requests] }, mean, Ratio},
	{"input_utilization", "input used of the limit", func(f *Figures) *Value { return &f.Used[escrow.Input] }, mean, Ratio},
	{"output_utilization", "output used of the limit", func(f *Figures) *Value { return &f.Used[escrow.Output] }, mean, Ratio},
	{"slots_utilization", "slots used", func(f *Figures) *Value { return &f.Used[escrow.Slots] }, mean, Ratio},
	{"dominant_share_min", "least dominant share / weight", func(f *Figures) *Value { return &f.DominantMin }, mean, Ratio},
	{"dominant_share_max", "largest dominant share / weight", func(f *Figures) *Value { return &f.DominantMax }, mean, Ratio},
	{"dominant_share_ratio", "  least / largest", func(f *Figures) *Value { return &f.DominantRatio }, mean, Factor},
	{"requests", "requests", func(f *Figures) *Value { return &f.Requests }, mean, Count},
	{"admitted", "  admitted", func(f *Figures) *Value { return &f.Admitted }, mean, Count},
}

// unknown is a set of figures of which none applies yet.
func unknown() Figures {
	var f Figures
	for _, g := range AllFigures {
		*g.Of(&f) = none
	}
	return f
}

// MarshalJSON writes the figures under their names, in their order.
func (f Figures) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, g := range AllFigures {
		if i > 0 {
			b.WriteByte(',')
		}
		v, err := g.Of(&f).MarshalJSON()
		if err != nil {
			return nil, err
		}
		b.WriteString(`"` + g.Key + `":`)
		b.Write(v)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// combine makes one set of figures of several seeds', and the least and the
// largest of each.
func combine(all []Figures) (one, least, most Figures) {
	one = unknown()
	least = unknown()
	most = unknown()
	for _, g := range AllFigures {
		sum := 0.0
		n := 0.0
		lo := math.Inf(1)
		hi := math.Inf(-1)
		for i := range all {
			v := *g.Of(&all[i])
			if !v.Known() {
				continue
			}
			sum = sum + float64(v)
			n = n + 1
			lo = min(lo, float64(v))
			hi = max(hi, float64(v))
		}
		if n == 0 {
			continue
		}
		*g.Of(&least) = Value(lo)
		*g.Of(&most) = Value(hi)
		*g.Of(&one) = Value(sum / n)
		if g.over == worst {
			*g.Of(&one) = Value(hi)
		}
	}
	return one, least, most
}
