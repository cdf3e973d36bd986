package shape

import (
	"fmt"
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/internal/lib/muldiv"
)

// Kind is the shape of a limit.
type Kind uint8

// The kinds of limits over time.
const (
	Rolling Kind = iota
	Fixed
	TokenBucket
	GCRA
)

var kindNames = [...]string{"rolling_window", "fixed_window", "token_bucket", "gcra"}

// String is the name of the kind in policies.
func (k Kind) String() string { return kindNames[k] }

// Bucket reports whether use leaves at a steady rate.
func (k Kind) Bucket() bool { return k == TokenBucket || k == GCRA }

// The bounds of Per.
const (
	MinPer = time.Second
	MaxPer = 31 * 24 * time.Hour
)

// Rule is a limit over time.
type Rule struct {
	Kind   Kind
	Amount int64
	Per    time.Duration
	// Burst is how much a bucket holds; 0 is the usual size of its kind. Other kinds have none.
	Burst int64
}

// Minute is the rule of a rolling minute.
func Minute(amount int64) Rule { return Rule{Amount: amount, Per: time.Minute} }

// Capacity is the most that can count at once.
func (r Rule) Capacity() int64 {
	switch {
	case r.Burst > 0:
		return r.Burst
	case r.Kind == GCRA:
		return max(1, r.Amount/10)
	}
	return r.Amount
}

// Window is how long use counts at most, unless there is debt: Per, or as long as a full bucket takes to drain.
func (r Rule) Window() time.Duration {
	if !r.Kind.Bucket() {
		return r.Per
	}
	return time.Duration(muldiv.Ceil(int64(r.Per), r.Capacity(), r.Amount))
}

// Validate reports a rule that is out of range.
func (r Rule) Validate() error {
	switch {
	case int(r.Kind) >= len(kindNames):
		return fmt.Errorf("there is no shape %d", r.Kind)
	case r.Amount < 1 || r.Amount > escrow.MaxLimit:
		return fmt.Errorf("%d is not in 1…%d", r.Amount, escrow.MaxLimit)
	case r.Per < MinPer || r.Per > MaxPer || r.Per%time.Millisecond != 0:
		return fmt.Errorf("%v is not in %v…%v, in whole milliseconds", r.Per, MinPer, MaxPer)
	case r.Burst < 0 || r.Burst > escrow.MaxLimit || r.Burst > 0 && !r.Kind.Bucket():
		return fmt.Errorf("a burst of %d is not in 1…%d, or %s has none", r.Burst, escrow.MaxLimit, r.Kind)
	case r.Window() > MaxPer:
		return fmt.Errorf("a burst of %d takes longer than %v to flow", r.Burst, MaxPer)
	}
	return nil
}
