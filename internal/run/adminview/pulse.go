package adminview

import (
	"net/http"
	"sync"
	"time"

	"github.com/llmgov/llmgov/internal/run/admission"
)

// stuckAfter is how long the governor's lock may be waited for before it is taken to be stuck: less than
// probes wait.
const stuckAfter = 3 * time.Second

// pulse finds out whether calls can be admitted and ended at all.
type pulse struct {
	mu   sync.Mutex
	felt chan struct{} // closed when the governor has been reached; nil = nobody tries to
}

// feel returns what is closed once the governor has been reached. However many ask, one goroutine tries; it
// ends when the governor's lock is free, if ever.
func (p *pulse) feel(ctl *admission.Controller) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.felt != nil {
		return p.felt
	}
	felt := make(chan struct{})
	p.felt = felt
	go func() {
		ctl.Governor().Touch()
		p.mu.Lock()
		defer p.mu.Unlock()
		p.felt = nil
		close(felt)
	}()
	return felt
}

// Live answers GET /livez.
func (v *View) Live(w http.ResponseWriter, r *http.Request) {
	patience := time.NewTimer(stuckAfter)
	defer patience.Stop()
	select {
	case <-v.pulse.feel(v.ctl):
		_, _ = w.Write([]byte("ok\n"))
	case <-patience.C:
		http.Error(w, "the governor is stuck: restart this process, and report what it logged", http.StatusServiceUnavailable)
	case <-r.Context().Done():
	}
}
