package limits

import (
	"slices"
	"strings"
)

// Axis is one thing that is limited.
type Axis int

// The axes of costs. Their limits count over a rolling minute.
const (
	Requests Axis = iota
	Tokens
	Input
	Output
	firstWindow

	// Kinds is how many kinds of cost a call has.
	Kinds = int(firstWindow)
)

const (
	// MaxWindows is how many further limits a Set has at most; see Window. Each has an axis of its own, from firstWindow on, as
	// long as it is there.
	MaxWindows = 4

	// Concurrency limits calls that run.
	Concurrency = firstWindow + MaxWindows
	// Budget is no limit of a Set. It is the axis of the demand on one of the owner's budgets, and of a call that waits because too little
	// is granted of one.
	Budget = Concurrency + 1

	// Timed is how many axes count over time, and Axes how many there are in all.
	Timed = int(Concurrency)
	Axes  = Timed + 1
)

// names are those of the axes that are no Window's: in metrics, messages and lists of limits, and of the short keys in files. All
// other names follow from them.
var names = [Axes]struct{ name, key string }{
	Requests:    {"requests", "rpm"},
	Tokens:      {"tokens", "tpm"},
	Input:       {"input_tokens", "itpm"},
	Output:      {"output_tokens", "otpm"},
	Concurrency: {"concurrency", "concurrency"},
}

// Named are the axes that are no Window's, in the order in which limits are listed.
var Named = [...]Axis{Requests, Tokens, Input, Output, Concurrency}

// Pick is the amount of an axis, of those in the order of Named.
func Pick(k Axis, amounts ...*int64) *int64 { return amounts[slices.Index(Named[:], k)] }

// Find is the axis of a name, if it is no Window's.
func Find(name string) (k Axis, ok bool) {
	i := slices.IndexFunc(names[:], func(n struct{ name, key string }) bool { return n.name == name && name != "" })
	return Axis(i), i >= 0
}

// String is the name of an axis that is no Window's; see Set.Name.
func (k Axis) String() string { return names[k].name }

// Key is the short key of an axis that is no Window's.
func (k Axis) Key() string { return names[k].key }

// Unit is the word for an amount of an axis that is no Window's, such as "input tokens".
func (k Axis) Unit() string {
	if k == Concurrency {
		return "calls at once"
	}
	return strings.ReplaceAll(names[k].name, "_", " ")
}

// Title names the limit on an axis that is no Window's in messages.
func (k Axis) Title() string {
	if k == Concurrency {
		return "concurrent calls (concurrency)"
	}
	return k.Unit() + " per min (" + strings.ToUpper(names[k].key) + ")"
}

// Cost is the cost of a call, by kind.
type Cost [Kinds]int64

// Plus is c and so many times o.
func (c Cost) Plus(o Cost, times int64) Cost {
	for k := range c {
		c[k] += times * o[k]
	}
	return c
}
