package limits

// Axis is one thing that is limited.
type Axis int

// The axes. All but Concurrency count over a rolling minute.
const (
	Requests Axis = iota
	Tokens
	Input
	Output
	Concurrency
	// Budget is no limit of a Set. It is the axis of a call that waits because too little is
	// granted of one of the owner's budgets.
	Budget

	// Rolling is how many axes are rolling, and Axes how many there are in all.
	Rolling = int(Concurrency)
	Axes    = Rolling + 1
)

var axisNames = [Axes]string{
	Requests:    "requests",
	Tokens:      "tokens",
	Input:       "input_tokens",
	Output:      "output_tokens",
	Concurrency: "concurrency",
}

func (k Axis) String() string { return axisNames[k] }

// Cost is the cost of a call on the rolling axes.
type Cost [Rolling]int64

// On is the cost on one axis; of the concurrent calls a call takes one slot.
func (c Cost) On(k Axis) int64 {
	if k == Concurrency {
		return 1
	}
	return c[k]
}

// Plus is c and so many times o.
func (c Cost) Plus(o Cost, times int64) Cost {
	for k := range c {
		c[k] += times * o[k]
	}
	return c
}
