package runner

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/llmgov/llmgov/federation/parts"
)

// How beats are sent: those that are due, in batches, and how their answers are put in force.

// batch is how many owners' beats are sent in one round trip at most.
const batch = 256

// beat sends the beats that are due.
func (r *LimitsRunner) beat(ctx context.Context, now time.Time, list iter.Seq[*owner]) {
	var due, waitedFor []*owner
	for o := range list {
		if !o.alone && r.silent(o, now) {
			o.alone = true
			o.Alone(now, o.unreadable)
		}
		switch {
		case o.asked || !o.held.Due(now, o.busy, o.lacking) && !(o.asks && o.Limits.(AskedLimits).Gives(now)):
		case o.asks && r.behind.closed(now):
			waitedFor = append(waitedFor, o)
		case !o.asks && r.breaker.closed(now):
			due = append(due, o)
		}
	}
	r.askBatches(ctx, now, due, patience, &r.breaker)
	most := patience
	if r.asks.errors+r.behind.errors == 0 && !r.far {
		most = askPatience // because calls that ask may have to wait for these
	}
	r.askBatches(ctx, now, waitedFor, most, &r.behind)
}

func (r *LimitsRunner) askBatches(ctx context.Context, now time.Time, due []*owner, most time.Duration, tell *breaker) {
	for len(due) > 0 {
		n := min(batch, len(due))
		r.ask(ctx, now, due[:n:n], most, tell)
		due = due[n:]
	}
}

// silent reports whether nobody has answered for as long as parts hold. Until then calls are told
// to come back: otherwise each moment without the store would give each gateway all of the limits.
func (r *LimitsRunner) silent(o *owner, now time.Time) bool {
	return now.Sub(o.heard) >= parts.TTL && !now.Before(o.held.Until()) || now.Sub(r.heard) >= parts.TTL
}

func (r *LimitsRunner) ask(ctx context.Context, now time.Time, list []*owner, most time.Duration, tell *breaker) {
	beats := make([]*parts.Beat, len(list))
	for i, o := range list {
		beats[i] = r.beatOf(o, now)
	}
	turns := turnsOf(list)
	r.asking.Go(func() {
		replies, err := r.send(ctx, beats, most)
		a := answer{tell: tell, sent: now, at: time.Now(), owners: list, turns: turns, replies: replies}
		a.failed, a.err = apart(err)
		select {
		case r.answers <- a:
		case <-ctx.Done():
		}
	})
}

// beatOf makes an owner's next beat. What calls that ask have given back is given up in it: while it
// still belonged to this process's part nobody else could use it before the beat after.
func (r *LimitsRunner) beatOf(o *owner, now time.Time) (b *parts.Beat) {
	if o.asks && o.Limits.(AskedLimits).Gives(now) {
		b = o.held.Ask(now, o.Limits.(AskedLimits).GiveUp(now))
		o.busy = true
	} else {
		if l, rotates := o.Limits.(RotatingLimits); rotates && o.held.Learns() {
			l.TellAll()
		}
		var claims []parts.Claim
		claims, o.busy = o.Claims(now)
		r.last(o, now, claims)
		b = o.held.Beat(now, o.busy, claims)
	}
	o.told()
	o.shorten()
	o.lacking, o.asks = false, asked(o.Limits)
	b.Timed = o.asks
	return b
}

func (r *LimitsRunner) send(ctx context.Context, beats []*parts.Beat, most time.Duration) ([]parts.Reply, error) {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	began := time.Now()
	replies, err := r.cfg.Store.Share(ctx, beats)
	r.cfg.Told(OpShare, time.Since(began), err)
	return replies, err
}

// answer is the answer to a batch of beats.
type answer struct {
	tell     *breaker // of how it went
	sent, at time.Time
	owners   []*owner
	turns    []int // of each owner, as its beat was sent
	replies  []parts.Reply
	failed   parts.Failures
	err      error // of all
}

// apart tells an error of some beats from one of all.
func apart(err error) (some parts.Failures, all error) {
	if some, ok := errors.AsType[parts.Failures](err); ok {
		return some, nil
	}
	return nil, err
}

func (r *LimitsRunner) answered(a answer) {
	a.tell.tell(a.sent, a.at, a.err)
	if a.tell == &r.behind {
		r.far = a.at.Sub(a.sent) >= askPatience
	}
	if a.err == nil {
		r.hear(a.sent)
	}
	for i, o := range a.owners {
		r.put(o, &a, i)
	}
}

// hear notes that what was sent then was answered. Answers may come in another order than they were asked for.
func (r *LimitsRunner) hear(sent time.Time) {
	if sent.After(r.heard) {
		r.heard = sent
	}
}

// put puts in force what one owner was answered, and reports whether there was a valid answer.
func (r *LimitsRunner) put(o *owner, a *answer, i int) bool {
	if a.turns[i] != o.turn {
		return false // calls have overtaken the beat, and told everything that it did
	}
	o.asked = false
	o.asking = false
	if a.err == nil {
		r.noteRead(o, a.failed[i])
	}
	if a.err != nil || a.failed[i] != nil || i >= len(a.replies) || !o.held.Answered(a.at, &a.replies[i]) {
		o.held.Lost()
		o.lacking = o.lacking || o.held.Lacks()
		return false
	}
	o.heard = a.sent
	o.alone = false
	if o.held.Learns() && a.at.Sub(r.lost) > parts.TTL {
		r.lost = a.at
	}
	r.keep(o, a.at)
	o.Apply(a.at, o.held.Fresh(), a.replies[i].Parts)
	o.sign = nil
	o.lacking = o.lacking || o.held.Lacks()
	if r.presence != nil && o.Limits == Limits(r.presence) {
		r.present(a.at)
	}
	switch {
	case r.keepParts(o, &a.replies[i], a.at):
	case !o.held.Quiet():
	case !o.Rest(a.at):
		o.busy = true // calls came in the meantime, and nobody else would tell of them
	default:
		delete(r.inUse, o)
	}
	return true
}

// noteRead notes whether the store can read an owner's account, by how its beat failed.
func (r *LimitsRunner) noteRead(o *owner, failed error) {
	unreadable := errors.Is(failed, parts.ErrDamaged) || errors.Is(failed, parts.ErrEncoding)
	if failed != nil && !unreadable || unreadable == o.unreadable {
		return
	}
	o.unreadable = unreadable
	o.alone = false // so that it is told how it is alone now
	r.cfg.Unreadable(o.Owner(), failed)
}

// keep keeps the epoch of the account that knows all that this process and earlier ones at this place used. An account that has forgotten
// what those used is told of it in the next beat.
func (r *LimitsRunner) keep(o *owner, now time.Time) {
	if o.held.Forgotten() && o.Recalls(now) {
		o.Recall(now)
		return
	}
	epoch := o.held.Taught()
	if epoch != o.kept {
		r.cfg.Keep(o.Owner(), epoch)
		o.kept = epoch
	}
}

// leave tells of all limits once more, and gives up everything that is not used.
func (r *LimitsRunner) leave() {
	r.asking.Wait()
	now := time.Now()
	var beats []*parts.Beat
	for _, o := range r.known {
		claims, _ := o.Claims(now)
		beats = append(beats, o.held.Leave(now, claims))
	}
	for len(beats) > 0 {
		n := min(batch, len(beats))
		_, err := r.send(context.Background(), beats[:n], patience)
		if _, all := apart(err); all != nil {
			return // parts expire; of a period they are lost
		}
		beats = beats[n:]
	}
}
