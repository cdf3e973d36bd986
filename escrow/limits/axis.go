package limits

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
	// Budget is no limit of a Set. It is the axis of a call that waits because too little is
	// granted of one of the owner's budgets.
	Budget = Concurrency + 1

	// Timed is how many axes count over time, and Axes how many there are in all.
	Timed = int(Concurrency)
	Axes  = Timed + 1
)

var axisNames = [Axes]string{
	Requests:    "requests",
	Tokens:      "tokens",
	Input:       "input_tokens",
	Output:      "output_tokens",
	Concurrency: "concurrency",
}

// String is the name of an axis that is no Window's; see Set.Name.
func (k Axis) String() string { return axisNames[k] }

// Cost is the cost of a call, by kind.
type Cost [Kinds]int64

// Plus is c and so many times o.
func (c Cost) Plus(o Cost, times int64) Cost {
	for k := range c {
		c[k] += times * o[k]
	}
	return c
}
