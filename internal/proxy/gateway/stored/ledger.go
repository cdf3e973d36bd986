package stored

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/tidwall/gjson"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/governor/tokens"
	"github.com/llmgov/llmgov/internal/ops/telemetry"
	"github.com/llmgov/llmgov/internal/proxy/objects"
	"github.com/llmgov/llmgov/internal/run/admission"
	"github.com/llmgov/llmgov/internal/run/admission/ask"
	"github.com/llmgov/llmgov/streaming"
)

// Ledger has the stored objects that one call owns and owes. It is part of the call, and must not be copied.
type Ledger struct {
	Call  *admission.Call
	Store *objects.Store
	Holds *Holds
	Batch Batch // that the call creates, or of whose calls it uploads the file

	held  governor.Lease // of a batch that is being created
	owed  string         // the response that is charged when it is done
	begun objects.Key    // the response whose size is a guess, until its usage is reported
	guess int64
	noted int // how many objects of the answer were recorded
}

// ErrNotKept means that the owner of an object could not be recorded.
var ErrNotKept = errors.New("it cannot be kept whose the object is")

// Sees reports whether the tenant may see an object. It gives the same answer for another tenant's
// object and for one that does not exist.
func (l *Ledger) Sees(key objects.Key) bool {
	if !objects.IsID(key.ID) {
		return false
	}
	e, ok := l.Store.Owner(key)
	return ok && objects.Visible(e.Owner, l.Call.Tenant.Name)
}

// HasAny reports whether the tenant may see any object of a kind at an upstream.
func (l *Ledger) HasAny(upstream string, kind objects.Kind) bool {
	return l.Store.Any(upstream, kind, l.Call.Tenant.Name) ||
		kind == objects.File && l.Store.Any(upstream, objects.BatchFile, l.Call.Tenant.Name)
}

// Keep records the owner of objects that are not known yet. It returns those that it could not record.
func (l *Ledger) Keep(ctx context.Context, upstream string, list []Object, owner string) ([]Object, error) {
	for i, o := range list {
		key := objects.Key{Upstream: upstream, ID: o.ID}
		if _, known := l.Store.Owner(key); known {
			continue
		}
		entry := objects.Entry{Kind: o.Kind, Owner: owner, Size: o.Size}
		if o.Kind == objects.BatchFile {
			entry.Model = l.Batch.Dearest
			entry.Input = l.Batch.Input
			entry.Output = l.Batch.Output
			entry.Calls = l.Batch.Calls
		}
		// Not with the client's context: the object is there even if the client has gone.
		if err := l.Store.Own(context.WithoutCancel(ctx), key, entry); err != nil {
			return list[i:], errors.Join(ErrNotKept, err)
		}
	}
	return nil, nil
}

// Record records objects that an answer shows, before the caller can know of them. They are written to disk a
// moment later: those that a crash loses are only hidden. The upstream does not keep unstored answers.
func (l *Ledger) Record(upstream string, list []Object, unstored bool) {
	for _, o := range list {
		if unstored && !o.recalled { // nobody can ask for it later
			continue
		}
		key := objects.Key{Upstream: upstream, ID: o.ID}
		if _, known := l.Store.Owner(key); known {
			if o.Size > 0 {
				l.Store.Resize(key, o.Size)
			}
			continue
		}
		if l.noted == mostShown {
			return
		}
		l.noted++
		size := o.Size
		if o.Kind == objects.Response && size == 0 { // it has only begun, and may never report its usage
			size = l.Call.Request.Input + l.Call.Request.Output
			l.begun = key
			l.guess = size
		}
		l.Store.OwnSoon(key, objects.Entry{Kind: o.Kind, Owner: l.Call.Tenant.Name, Size: size})
	}
}

// Unreported records what is believed of a response that never reported its usage: it is the prompt of those that continue it.
// Another call may have been told the usage meanwhile.
func (l *Ledger) Unreported(u governor.Usage) {
	if l.begun.ID == "" {
		return
	}
	if e, _ := l.Store.Owner(l.begun); e.Size != l.guess {
		return
	}
	held := l.Call.Request
	l.Store.Resize(l.begun, max(held.Input, u.Input)+max(held.Output, u.Output))
}

// Collect charges an object that is done.
func (l *Ledger) Collect(key objects.Key, end End) {
	err := Collect(l.Store, key, end, func(d objects.Debt, u governor.Usage) bool {
		d.Calls = cmp.Or(end.Calls, d.Calls)
		if d.Kind == objects.Response && !end.Reported && end.Left {
			prompt := ask.Prompt{Size: d.Size, Before: d.Before}
			text := tokens.Sample{Tokens: d.Text[0], Weight: d.Text[1]}
			u = l.Call.Policy.Unfinished(d.Counts(), d.Pool, d.Model, prompt, text, u, time.Since(d.Made), d.Most)
		}
		named := d
		named.Model = end.Model
		// A batch may name the model that its calls asked for, or a dated one that has no price.
		if d.Kind == objects.Batch && end.Model != "" && (priceOf(l.Call.Policy, key, &named) != nil || priceOf(l.Call.Policy, key, &d) == nil) {
			d = named
		}
		return l.charge(key, d, u, !end.Reported)
	})
	if err != nil {
		l.Call.Failure = err
	}
}

// Seen charges an object that an answer shows, if it is done and not charged yet.
func (l *Ledger) Seen(key objects.Key, shown gjson.Result) {
	end, ok := ReadEnd(shown)
	if !ok {
		return
	}
	if end.Reported {
		l.Store.Resize(key, end.Usage.Input+end.Usage.Output)
	}
	l.Collect(key, end)
}

// charge charges the maker of an object, in the pool that served it. If the policy does not
// have these any more, the tenant of this call is charged.
func (l *Ledger) charge(key objects.Key, d objects.Debt, u governor.Usage, estimated bool) bool {
	c := l.Call
	tenant := c.Counted()
	pool := c.Pool.Name
	account := l.accountOf(d)
	if account != nil {
		tenant = d.Counts()
		pool = d.Pool
	} else {
		account = c.Account
	}
	if !account.Hold() {
		return false
	}
	defer account.Release()
	// Providers run batches outside of the limits by the minute, and report the use of hours at once.
	req := governor.Request{Tenant: tenant, Pool: pool, Model: d.Model, ID: c.ID, BudgetsOnly: d.Kind == objects.Batch}
	if d.Kind == objects.Response && d.Bound > 0 { // see Lease.Postpone
		req.Booked = governor.Booked{Input: d.Input, Output: d.Bound}
		more := governor.Usage{Output: u.Output - d.Bound}
		if !estimated { // what a sample tells of the prompt was learned already
			more.Input = u.Input - d.Input
		}
		c.Policy.LearnMore(tenant, pool, d.Model, ask.Prompt{Size: d.Size, Before: d.Before}, u, more)
	}
	if req.BudgetsOnly {
		u.Tier = governor.TierBatch
	}
	req.Price = priceOf(c.Policy, key, &d)
	took := c.Policy.Taken(&req, key.Upstream, u, estimated)
	if l.Holds.Take(key).Costing(took.MicroUSD).Charge(u) { // it replaces the lease of the batch
		account.Took(took)
		return true
	}
	return c.Book(req, account, took)
}

// accountOf is the account of the maker of an object in the pool that served it; nil if the policy does not have
// both any more.
func (l *Ledger) accountOf(d objects.Debt) *telemetry.Account {
	owner, known := l.Call.Policy.Snapshot.TenantByName(d.Owner)
	pool, there := l.Call.Policy.PoolNamed(d.Pool)
	if !known || !there {
		return nil
	}
	return l.Call.Policy.Account(owner.Index, pool.Index)
}

// Answered ends a call whose answer comes later, with the usage that was metered.
func (l *Ledger) Answered(res streaming.Result, u governor.Usage, upstream string) {
	if l.later(res, u, upstream) {
		l.Call.Postpone()
		u = governor.Usage{}
	}
	l.Call.AnsweredWith(res, u)
}

// later reports whether the answer of a background response is charged elsewhere: once it is done
// and somebody looks, or it was already. A stream that reports its usage is charged like any
// other. One that broke off goes on at the upstream, unless it was seen to be gone.
func (l *Ledger) later(res streaming.Result, u governor.Usage, upstream string) bool {
	if l.owed == "" { // for a plain answer that is set later: see WatchAnswer
		return !res.Reported && !l.Call.Ask.Stream && res.Cause == streaming.Completed
	}
	mine := false
	l.Call.Failure = l.Store.Collect(objects.Key{Upstream: upstream, ID: l.owed}, func(d *objects.Debt) bool {
		d.Streams = false
		d.Output = u.Output
		mine = d.Untold || res.Reported && res.Cause == streaming.Completed
		return mine
	})
	return !mine
}
