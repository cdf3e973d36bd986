package governor

import (
	"time"

	"github.com/llmgov/llmgov/escrow"
)

// Of a pool that is PerTenant, a tenant or team whose calls the upstream fails may run fewer of them at once for a time (package
// escrow/penalty): at one upstream, if the pool's upstreams have limits of their own, or else in the pool. Each process goes by
// the calls that it has sent.

// Failed reports that the upstream failed the call: by a status of 500 or above, because it did not answer in time, or because its answer
// broke off. Do not report that of a refusal, an error of the caller's, or an upstream that could not be reached. If the call is
// to be sent to another upstream, call it before Move; in any case before the lease is ended. Twice is as good as once.
func (l Lease) Failed() { l.failed(EventFailed) }

// ends takes in how a running call is about to end. Call pump afterwards.
func (p *pool) ends(now time.Time, h escrow.Handle, u Usage, how Ending) {
	at := p.escrow.At(h)
	if at < 0 || how != EndSettled || !u.Took() || !p.blames(&p.leases[h.Slot]) {
		return
	}
	all := p.slots.Limit()
	if p.upstreams != nil && p.upstreams.List[at].Concurrency > 0 {
		all = min(all, p.upstreams.List[at].Concurrency)
	}
	p.escrow.Succeeded(now, h, all)
}

// blames reports whether failures of a call have an effect on others of its tenant.
func (p *pool) blames(st *leaseState) bool {
	if !p.rules.PerTenant {
		return false
	}
	seat := p.present(st.seat)
	return seat != nil && seat.leaf == st.leaf
}
