package runner

import (
	"encoding/base64"
	"hash/fnv"
	"strconv"
	"strings"
	"time"

	"github.com/llmgov/llmgov/federation/parts"
)

// Parts that last: a process that uses little of an owner's limits has parts for more than a TTL, and tells nothing meanwhile. It uses them
// only while the store answers a beat that it sends for all of them together. See the documentation of package parts.

// LastingLimits are limits whose parts can last.
type LastingLimits interface {
	Limits
	// Last makes the last claims ask for parts that last, of what calls may take meanwhile; false if that is too much of the limits.
	Last(claims []parts.Claim) bool
	// Keep says that the parts may be used until a time, but no longer than the sign of life of that number is good (LimitsConfig.Sign).
	Keep(until time.Time, sign int)
	// Stirred reports whether calls have come since the last claims.
	Stirred() bool
}

const (
	// partsLast is how long parts last. It is more than remindEvery and a beat's patience.
	partsLast = 75 * time.Second
	// tellAfter is when use of parts that last is told at the latest.
	tellAfter = 10 * time.Second
	// wantedFor is how long parts do not last after another process lacked some of the owner's limits, and hintFor how long it says so.
	wantedFor = 10 * time.Second
	hintFor   = 3 * time.Second
	// mostHints is how many owners a process hints at, at most, and hint is how long the hint is.
	mostHints = 512
	hint      = 8
)

// sign is until when parts that last may be used; zero if that was never said.
type sign struct {
	number int // from 1
	until  time.Time
}

// presence is the beat that a process sends for all parts that last. It claims a slot that it never takes. An account grants none while it
// may not know of all that it knew before: after a loss, a jump of its clock, or a pause of all beats. Its notes say of which owners'
// limits somebody lacks a part, so that those of others do not last.
type presence struct {
	sign   *sign
	turn   int
	lacks  map[string]time.Time // by hint, since when
	hints  map[string]bool      // of others, as of the last answer
	until  time.Time            // when what that granted expires; zero if it granted nothing
	sought int                  // of lacks, as of the last claims
}

func (r *LimitsRunner) newPresence() *presence {
	return &presence{sign: r.newSign(), lacks: map[string]time.Time{}}
}

func (r *LimitsRunner) newSign() *sign {
	r.signs++
	return &sign{number: r.signs}
}

// Owner is a name that no tenant has.
func (*presence) Owner() string { return "all gateways" }

// Claims claims the slot under another name than before, so that none counts as taken, and what the notes belong to always under the same.
func (p *presence) Claims(now time.Time) ([]parts.Claim, bool) {
	p.turn++
	var note strings.Builder
	for h, since := range p.lacks {
		if now.Sub(since) > hintFor {
			delete(p.lacks, h)
		} else {
			note.WriteString(h)
		}
	}
	p.sought = len(p.lacks)
	return []parts.Claim{
		{Name: strconv.Itoa(p.turn % 2), Kind: parts.Slots, Limit: parts.MaxAmount, Want: 1, Tail: 1},
		{Name: "notes", Kind: parts.Slots, Limit: parts.MaxAmount, Want: 1, Note: note.String()},
	}, true
}

func (p *presence) Apply(_, until time.Time, list []parts.Part) {
	p.hints = map[string]bool{}
	for _, n := range list[1].Notes {
		for text := n.Text; len(text) >= hint; text = text[hint:] {
			p.hints[text[:hint]] = true
		}
	}
	p.until = time.Time{}
	if list[0].Part > 0 {
		p.until = until
	}
}

func (*presence) Alone(time.Time, bool)  {}
func (*presence) Rest(time.Time) bool    { return false }
func (*presence) Recalls(time.Time) bool { return false }
func (*presence) Recall(time.Time)       {}

// hintOf is how owners are hinted at. Two may have the same hint.
func hintOf(owner string) string {
	h := fnv.New64a()
	_, _ = h.Write([]byte(owner))
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))[:hint]
}

// attend begins the beat for parts that last where there may be some, and ends it.
func (r *LimitsRunner) attend(now time.Time) {
	some := false
	for l := range r.known {
		_, some = l.(LastingLimits)
		if some {
			break
		}
	}
	switch {
	case some && r.presence == nil:
		r.presence = r.newPresence()
		r.owner(r.presence, now)
	case !some && r.presence != nil:
		o := r.known[r.presence]
		delete(r.inUse, o)
		delete(r.known, r.presence)
		r.presence = nil
		r.tellAll(now)
	}
}

// tellAll makes all parts that last be told of, and no longer last.
func (r *LimitsRunner) tellAll(now time.Time) {
	for o := range r.lasting {
		r.tellOf(o, now)
	}
}

// tellOf makes an owner's parts be told of, if they last.
func (r *LimitsRunner) tellOf(o *owner, now time.Time) {
	o.wanted = now
	r.use(o, now)
	o.held.Remind()
}

// last has claims ask for parts that last, where these may.
func (r *LimitsRunner) last(o *owner, now time.Time, claims []parts.Claim) {
	l, ok := o.Limits.(LastingLimits)
	if ok && o.busy && r.presence != nil && now.Before(r.presence.sign.until) && o.held.Heard() && now.Sub(o.wanted) >= wantedFor && l.Last(claims) {
		for i := range claims {
			claims[i].Lasts = partsLast.Milliseconds()
		}
	}
}

// shorten has parts that last expire as the store believes that they do after a beat.
func (o *owner) shorten() {
	if o.sign != nil {
		o.Limits.(LastingLimits).Keep(o.held.Until(), o.sign.number)
	}
}

// keepParts keeps parts that last, as of an answer that is in force, and reports whether there are any. Where some are lacking, it has the
// others hear of it. So it does where an account is new: nobody else may have told of the parts that they have. Of nothing none need last: limits of
// which nothing is used are forgotten.
func (r *LimitsRunner) keepParts(o *owner, answer *parts.Reply, now time.Time) bool {
	l, ok := o.Limits.(LastingLimits)
	if !ok || r.presence == nil {
		return false
	}
	if o.held.Lasts() && !o.lacking && !o.held.Empty() {
		o.sign = r.presence.sign
		l.Keep(o.held.Until(), o.sign.number)
		delete(r.inUse, o)
		r.lasting[o] = true
		return true
	}
	if o.held.Short() || answer.Now-answer.Epoch <= parts.TTL.Milliseconds() {
		if h := hintOf(o.Owner()); len(r.presence.lacks) < mostHints {
			r.presence.lacks[h] = now
			present := r.known[r.presence]
			present.lacking = present.lacking || len(r.presence.lacks) > r.presence.sought
		}
	}
	return false
}

// present takes in the answer to the beat for parts that last. An account that has yet to learn of this process may grant, but was lost.
func (r *LimitsRunner) present(now time.Time) {
	p := r.presence
	good := !p.until.IsZero() && !r.known[p].held.Learns()
	switch {
	case good:
		p.sign.until = p.until
		r.cfg.Sign(p.sign.number, p.until)
	case !p.sign.until.IsZero():
		p.sign = r.newSign()
		r.lost = now
		r.tellAll(now)
	}
	if len(p.hints) == 0 {
		return
	}
	for o := range r.lasting {
		if p.hints[hintOf(o.Owner())] {
			r.tellOf(o, now)
		}
	}
}
