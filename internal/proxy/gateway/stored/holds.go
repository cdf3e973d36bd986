package stored

import (
	"maps"
	"slices"
	"sync"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/proxy/objects"
)

// Holds are the leases of batches that were not seen done yet. A batch holds in budgets the most that its
// calls may take, from before it is sent until it is seen done. The file keeps how much that is, because its
// lines are read only when it is uploaded; the debt of the batch keeps it over restarts. The zero value is
// ready to use.
type Holds struct {
	mu     sync.Mutex
	leases map[objects.Key]governor.Lease // guarded by mu
}

// Put hands over the lease of a batch.
func (h *Holds) Put(key objects.Key, l governor.Lease) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.leases == nil {
		h.leases = map[objects.Key]governor.Lease{}
	}
	h.leases[key] = l
}

// Take takes the lease of a batch out. It is the zero Lease if there is none.
func (h *Holds) Take(key objects.Key) governor.Lease {
	h.mu.Lock()
	defer h.mu.Unlock()
	l := h.leases[key]
	delete(h.leases, key)
	return l
}

// Forget gives back the leases of batches that nobody is to be charged for any more.
func (h *Holds) Forget(store *objects.Store) {
	for _, key := range h.keys() {
		if !store.Owes(key) {
			h.Take(key).Release()
		}
	}
}

// keys are the batches that have a lease.
func (h *Holds) keys() []objects.Key {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Collect(maps.Keys(h.leases))
}
