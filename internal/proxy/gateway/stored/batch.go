package stored

import (
	"strings"

	"github.com/llmgov/llmgov/internal/proxy/objects"
	"github.com/llmgov/llmgov/tenants"
)

// Batch is the sum of the calls of a batch.
type Batch struct {
	// Input and Output are the most tokens that they may take.
	Input, Output int64
	Calls         int64  // how many they are
	Dearest       string // of their models; "" is none
}

// maxBatchTokens bounds the sums, so that they cannot overflow.
const maxBatchTokens = int64(1e12)

// Add adds a call.
func (b *Batch) Add(input, output int64) {
	b.Input = min(b.Input+input, maxBatchTokens)
	b.Output = min(b.Output+output, maxBatchTokens)
	b.Calls++
}

// Asks notes a model that a call asks for, if it is the dearest so far.
func (b *Batch) Asks(model string, prices *tenants.Snapshot) {
	if len(model) > 256 {
		return // no provider has a model of such a name
	}
	price := prices.Price(model)
	old := prices.Price(b.Dearest)
	if price != nil && (old == nil || price.Output > old.Output || price.Output == old.Output && price.Input > old.Input) {
		b.Dearest = model
	}
}

// Reset forgets all calls. Models stay: the call may be checked anew.
func (b *Batch) Reset() {
	b.Input = 0
	b.Output = 0
	b.Calls = 0
}

// Of makes the batch that of the calls in a file that was checked.
func (b *Batch) Of(file objects.Entry, prices *tenants.Snapshot) {
	b.Asks(file.Model, prices)
	b.Input = file.Input
	b.Output = file.Output
	b.Calls = file.Calls
}

// IsBatch reports whether a file of this purpose is meant for a batch.
func IsBatch(purpose string) bool { return strings.EqualFold(strings.TrimSpace(purpose), "batch") }
