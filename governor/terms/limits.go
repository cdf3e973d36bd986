package terms

import (
	"slices"

	"github.com/llmgov/llmgov/escrow/limits"
	"github.com/llmgov/llmgov/escrow/limits/shape"
)

// Axis is one thing that is limited.
type Axis = limits.Axis

// The axes of limits.
const (
	Requests    = limits.Requests
	Tokens      = limits.Tokens
	Input       = limits.Input
	Output      = limits.Output
	Concurrency = limits.Concurrency
)

// Axes are all axes, in the order in which limits are listed.
var Axes = limits.Named[:]

type (
	// Limit is an amount on an axis over a time, in a shape.
	Limit = limits.Window
	// Rule is all of a limit but its axis.
	Rule = shape.Rule
	// Shape is how use counts against a limit over time.
	Shape = shape.Kind
)

// The shapes of limits over time.
const (
	RollingWindow = shape.Rolling
	FixedWindow   = shape.Fixed
	TokenBucket   = shape.TokenBucket
	GCRA          = shape.GCRA
)

// Timed is how many of the axes, the first ones, have limits of a minute.
const Timed = limits.Kinds

// MaxLimits is how many limits in other times and shapes than rolling minutes there may be.
const MaxLimits = limits.MaxWindows

// Limited is what has a limit on each axis, which may be 0.
type Limited interface {
	// Amount is the limit on an axis.
	Amount(k Axis) *int64
}

// Minute are the limits of a rolling minute.
func Minute(of Limited) (c limits.Cost) {
	for k := range c {
		c[k] = *of.Amount(Axis(k))
	}
	return c
}

// Any reports whether there is a limit on any axis.
func Any(of Limited) bool {
	return slices.ContainsFunc(Axes, func(k Axis) bool { return *of.Amount(k) > 0 })
}

// Set copies the limits on all axes.
func Set(into, from Limited) {
	for _, k := range Axes {
		*into.Amount(k) = *from.Amount(k)
	}
}

// FindAxis is the axis of a name.
func FindAxis(name string) (k Axis, ok bool) { return limits.Find(name) }
