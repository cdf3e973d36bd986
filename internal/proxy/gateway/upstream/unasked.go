package upstream

import "sync"

// mostUnasked bounds the models that are remembered.
const mostUnasked = 256

// unasked are the models of which streams are not asked for their usage, because they refuse stream_options.
type unasked struct {
	mu     sync.Mutex
	models map[string]bool // guarded by mu
}

// Unasked reports whether streams of a model are not to be asked for their usage.
func (u *Upstream) Unasked(model string) bool {
	u.unasked.mu.Lock()
	defer u.unasked.mu.Unlock()
	return u.unasked.models[model]
}

// LeaveUnasked notes that streams of a model are not to be asked for their usage.
func (u *Upstream) LeaveUnasked(model string) {
	u.unasked.mu.Lock()
	defer u.unasked.mu.Unlock()
	if u.unasked.models == nil {
		u.unasked.models = map[string]bool{}
	}
	if len(u.unasked.models) < mostUnasked {
		u.unasked.models[model] = true
	}
}
