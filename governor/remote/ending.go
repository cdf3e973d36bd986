package remote

import (
	"context"
	"math"
	"time"

	"github.com/llmgov/llmgov/governor/client"
	"github.com/llmgov/llmgov/governor/remote/admissionv1"
)

// tellers is how many goroutines at most tell of ends behind the calls, however many there are to tell.
const tellers = 64

// ending is the end of a reservation, of which llmgov is to hear.
type ending struct {
	client.End
	id    string
	grant client.Grant // of its call; zero if no call has the reservation
	until time.Time    // when llmgov remembers it no longer
}

// nobodys reports whether no call has the reservation, which may not even have been made.
func (e *ending) nobodys() bool { return e.grant == client.Grant{} }

// giveBack cancels, behind the call, a reservation that may have been made, and that no call has.
func (d *door) giveBack(id string) {
	d.inflight.Enter(math.MaxInt64)
	d.tellLater(ending{id: id, End: client.End{Outcome: client.NotSent}, until: time.Now().Add(d.TTL)})
}

// tellLater has llmgov told of an end as soon as it can be reached. Shutdown waits for that.
func (d *door) tellLater(e ending) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.untold = append(d.untold, e)
	if d.busy < tellers {
		d.busy++
		go d.tellUntold()
	}
}

// tellUntold tells of ends, the oldest first, until there are none, or until telling ends.
func (d *door) tellUntold() {
	for e, ok := d.nextUntold(); ok; e, ok = d.nextUntold() {
		ctx, cancel := context.WithDeadline(d.telling, e.until)
		err := d.send(ctx, &e)
		for lost(err) && ctx.Err() == nil && !(e.nobodys() && d.waiting.Err() != nil) {
			select {
			case <-ctx.Done():
			case <-time.After(soonest):
				err = d.send(ctx, &e)
			}
		}
		cancel()
		d.told(&e, err)
	}
}

// nextUntold takes the oldest end that is to be told. It reports false if there is none: then a teller is over.
func (d *door) nextUntold() (ending, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.untold) == 0 {
		d.untold = nil
		d.busy--
		return ending{}, false
	}
	e := d.untold[0]
	d.untold = d.untold[1:]
	return e, true
}

// send tells llmgov of an end, which may hear of it again.
func (d *door) send(ctx context.Context, e *ending) (err error) {
	if e.Outcome == client.NotSent {
		_, err = d.stub.Cancel(ctx, &admissionv1.CancelRequest{ReservationId: e.id})
	} else {
		_, err = d.stub.Commit(ctx, commit(e.id, &e.End))
	}
	return err
}

// told notes that no more is told of an end.
func (d *door) told(e *ending, err error) {
	if err != nil && !e.nobodys() {
		d.Log.Error("llmgov has not heard of the end of a call: if it knows of the call, it charges it by estimate", "id", e.grant.ID, "tenant", e.grant.Tenant, "pool", e.grant.Pool, "err", err)
	}
	d.inflight.Leave()
}
