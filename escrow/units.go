package escrow

import (
	"math"
	"time"

	"github.com/llmgov/llmgov/internal/lib/muldiv"
)

// Window is the length of every rolling limit: the provider's minute.
const Window = time.Minute

// MaxLimit bounds every limit, and every cost on an axis that has one, so that no
// product in this package can overflow an int64.
const MaxLimit = int64(1e12)

// Weight is a node's claim relative to its siblings: one of 2.5 gets two and a half times as much as one of 1. It counts in whole
// thousandths, so that shares are exact and the same on every machine.
type Weight float64

// MinWeight and MaxWeight are the bounds of weights, beyond which tags would overflow or stand still.
const (
	MinWeight Weight = 0.001
	MaxWeight Weight = 1_000_000
)

// Thousandths is the weight as it counts.
func (w Weight) Thousandths() int64 { return int64(math.Round(float64(w) * weightOne)) }

// Valid reports whether a node may have the weight.
func (w Weight) Valid() bool { return w >= MinWeight && w <= MaxWeight }

// weightOne is weight 1 in thousandths.
const weightOne = 1000

// Axis names one dimension of a pool's capacity.
type Axis int

// The axes of a pool. Slots are occupied while a call runs; all others are spent over a rolling
// Window. Tokens are those of input and output together.
const (
	Tokens Axis = iota
	Requests
	Input
	Output
	Slots

	// Rolling is how many axes are spent over a rolling Window.
	Rolling = int(Slots)
)

var axisNames = [...]string{Tokens: "tokens", Requests: "requests", Input: "input_tokens", Output: "output_tokens", Slots: "concurrency"}

// String names the axis as metrics and messages do.
func (a Axis) String() string { return axisNames[a] }

var axisKeys = [...]string{Tokens: "tpm", Requests: "rpm", Input: "itpm", Output: "otpm", Slots: "concurrency"}

// Key names the limit on the axis as files do.
func (a Axis) Key() string { return axisKeys[a] }

// Cost is the use of each rolling axis by one call, indexed by Axis. Every call also takes one slot.
type Cost [Rolling]int64

func (c Cost) plus(d Cost) Cost {
	for k := range c {
		c[k] += d[k]
	}
	return c
}

func (c Cost) less(d Cost) Cost {
	for k := range c {
		c[k] -= d[k]
	}
	return c
}

// counting is a cost of which only so many tokens count in a share. Those that do not are of the input.
func (c Cost) counting(fair int64) Cost {
	fair = min(max(fair, 0), c[Tokens])
	c[Input] = max(0, c[Input]-(c[Tokens]-fair))
	c[Tokens] = fair
	return c
}

// tagUnit is the virtual cost of one whole Window of a pool: a call that takes
// a thousandth of the tokens a minute costs tagUnit/1000, and moves a tag by that
// over its node's weight. This leaves 2²¹ minutes of a pool at weight 1, four years,
// before tags are rebased (rebaseAt).
const tagUnit = int64(1) << 40

// maxVirtualCost bounds the virtual cost of one call: 256 minutes of the
// whole pool.
const maxVirtualCost = tagUnit << 8

// maxAhead bounds how far a node's tag can run ahead of virtual time, so that
// no sum of tags overflows.
const maxAhead = int64(1) << 60

// signedMulDiv is muldiv.Ceil for an a of either sign, rounding its size up.
func signedMulDiv(a, b, c int64) int64 {
	if a < 0 {
		return -muldiv.Ceil(-a, b, c)
	}
	return muldiv.Ceil(a, b, c)
}
