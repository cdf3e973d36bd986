package upstreams

import (
	"slices"
	"time"
)

// foreign is how much of one limit others use, who call the upstream with the same account. An upstream tells of the use of all by
// what is left, and llmgov knows its own: the rest is theirs.
//
// Upstreams count in three ways, and own use has to be counted in the same one: over the time before each call (rolling), from the
// beginning of a window for all (fixed), or as a debt that is paid off steadily (a bucket). Which one it is follows from the resets.
// Until that is known it is taken to be rolling, by which own use counts most, and others' least.
type foreign struct {
	own   ledger
	part  float64   // of what its pools use of all models, that they use of the limit
	early []early   // looks of which it is not known yet what other gateways had used by then, oldest first
	at    time.Time // of the last look that was noted

	paid, fixed int       // looks in a row by which it is a bucket, or has windows, up to alike
	since       time.Time // the first of paid
	from, end   time.Time // a look, and the end of the window by it
	now, before int64     // use by others in this fixed window, and in the one before
	debt        float64   // of others in the bucket, with a lag

	last    [agreeing]int64 // what the last looks came to
	looks   int
	step    int64         // by how much that rose from one look to the next of late
	refused time.Time     // the last refusal
	use     int64         // by others in a minute, as of at
	more    int64         // that is kept free beside use, because they may use it before the next look
	lasts   time.Duration // it falls to 0 by then

	told    int64 // use and more as they were told last
	toldAt  time.Time
	toldFor time.Duration // lasts then
}

// early is a look at what was left at a time, and the most that llmgov is known to have used of it since.
type early struct {
	Left
	at   time.Time
	own  int64
	way  way
	over bool // it is the first of a fixed window
}

// way is how an upstream counts.
type way uint8

const (
	rolling way = iota
	fixed
	bucket
)

const (
	// lookEvery is how often what is left is looked at.
	lookEvery = 100 * time.Millisecond
	// leastForeign is the part of a limit that is the least that counts as use by others. What is less may be calls on their way, or what
	// other gateways have used since the last beat. In the minute after a refusal all counts.
	leastForeign = 20
	// stepTimes is how many of the largest steps of late are kept free, and stepFades the part of it that is forgotten with each look.
	stepTimes = 8
	stepFades = 100
	// moreLeast and moreMost are the parts of the limit that they are at least, and at most.
	moreLeast = 100
	moreMost  = 40
	// newsPart is the part of a limit that is news.
	newsPart = 200
	// foreignLastsLeast and foreignLastsMost are the shortest and longest time for which use by others counts without another look.
	foreignLastsLeast, foreignLastsMost = 10 * time.Second, time.Minute
	// apart is how far two times may be from each other that are the same, of answers that round to seconds.
	apart = 1500 * time.Millisecond
	// alike is how many looks must agree on how an upstream counts, and alikeFor for how long, because the reset of a window and that of
	// a bucket are the same for some seconds.
	alike, alikeFor = 10, 20 * time.Second
	// debtLags is how slowly the debt of others is followed: own bursts are in it, too, and are paid off with theirs.
	debtLags = 15 * time.Second
	// leastKept is the part of a limit that is kept whatever others use: of two who each leave the other what it uses, one would end with nothing.
	leastKept = 5
	// leastLearned is the shortest window of which the way of counting is learned.
	leastLearned = 30 * time.Second
)

// look takes in what is left, and how much llmgov is known to have used in the last minute, of which what other gateways used is known so
// late. It reports whether that changes what counts.
func (f *foreign) look(now time.Time, l Left, used int64, late time.Duration, refused bool) (news bool) {
	f.own.note(now, used)
	switch {
	case refused:
		f.refused = now
	case l.Left == 0: // which means nothing if the call is served
		return false
	}
	f.use = 0
	f.more = 0
	if l.Window > time.Minute || l.Reset > time.Minute+apart { // not of a minute
		f.early = nil
		f.looks = 0
		return f.news(now, l)
	}
	is := early{Left: l, at: now}
	is.over = f.learn(now, l)
	is.way = f.way(now)
	is.own = f.own.counted(is.way, &l)
	for i := range f.early {
		if e := &f.early[i]; e.way == is.way {
			e.own = max(e.own, is.own)
		}
	}
	f.early = append(f.early, is)
	taken := int64(0)
	for len(f.early) > 0 && (refused || now.Sub(f.early[0].at) >= late) { // a refusal is no mistake
		taken = f.note(&f.early[0])
		f.early = slices.Delete(f.early, 0, 1)
	}
	limit := l.minute(l.Limit)
	least := limit / leastForeign
	if now.Sub(f.refused) < time.Minute {
		least = 1
	}
	sorted := f.last
	slices.Sort(sorted[:])
	use := sorted[agreeing/2]
	alone := refused && taken > use
	if refused {
		use = max(use, taken)
	}
	if use >= least && (f.looks >= agreeing || refused) {
		f.use = min(use, limit)
		f.more = min(max(stepTimes*f.step, limit/moreLeast), limit/moreMost)
	}
	f.lasts = foreignLastsMost
	switch {
	case alone: // a gateway that hardly calls may not look again soon, and holds all others to it
		f.lasts = max(foreignLastsLeast, f.lasts/3)
	case l.Reset > 0:
		f.lasts = min(max(l.Reset, foreignLastsLeast), foreignLastsMost)
	}
	return f.news(now, l)
}

// way is how the upstream counts, as far as is known.
func (f *foreign) way(now time.Time) way {
	switch {
	case f.paid == alike && now.Sub(f.since) >= alikeFor:
		return bucket
	case f.fixed == agreeing:
		return fixed
	}
	return rolling
}

// note notes what a look comes to as use of a minute by others.
func (f *foreign) note(e *early) (use int64) {
	since := e.at.Sub(f.at)
	f.at = e.at
	use = e.Limit - e.Left.Left - e.own
	switch e.way {
	case bucket:
		f.debt += float64(use-int64(f.debt)) * min(1, since.Seconds()/debtLags.Seconds())
		use = int64(f.debt)
	case fixed:
		if e.over {
			f.before = max(0, f.now)
		}
		f.now = use
		use = max(0, f.now) + int64(float64(f.before)*float64(e.Reset)/float64(e.Window))
	}
	use = e.minute(use)
	if f.looks > 0 {
		f.step = max(use-f.last[(f.looks-1)%agreeing], f.step-f.step/stepFades)
	}
	f.last[f.looks%agreeing] = use
	f.looks++
	return use
}

// news reports whether what counts is off from what was told by a part of the limit, or ends soon.
func (f *foreign) news(now time.Time, l Left) bool {
	count := f.use + f.more
	if off := max(count-f.told, f.told-count); off < l.minute(l.Limit)/newsPart && (count == 0 || now.Sub(f.toldAt) < f.lasts/8) {
		return false
	}
	f.told = count
	f.toldAt = now
	f.toldFor = f.lasts / fading * fading
	return true
}

// learn learns how the upstream counts. It reports whether a window is over, if it has windows.
func (f *foreign) learn(now time.Time, l Left) (over bool) {
	if l.Window < leastLearned {
		return false
	}
	part := float64(l.Limit-l.Left) / float64(l.Limit)
	paid := time.Duration(part * float64(l.Window))
	switch off := (l.Reset - paid).Abs(); {
	case off > apart+paid/10:
		f.paid = 0
	case part > .05 && part < .8: // else the other ways have the same reset
		if f.paid == 0 {
			f.since = now
		}
		f.paid = min(f.paid+1, alike)
	}
	end := now.Add(l.Reset)
	moved := end.Sub(f.end).Abs() > apart
	switch ended := !now.Before(f.end.Add(-apart)); {
	case l.Reset <= 0:
		f.fixed = 0
	case moved:
		over = ended && !f.end.IsZero()
		if !ended {
			f.fixed = 0
		}
		f.from = now
		f.end = end
	case now.Sub(f.from) >= 2*apart:
		f.fixed = min(f.fixed+1, agreeing)
		f.from = now
	}
	return over
}

// count is how much is kept free for others at a time: what was told last, which ends in steps if there are no news.
func (f *foreign) count(now time.Time) int64 {
	left := f.toldAt.Add(f.toldFor).Sub(now)
	if left <= 0 {
		return 0
	}
	step := f.toldFor / fading
	return f.told * min(int64((left+step-1)/step), fading) / fading
}

// uses is how much others use, as of the last look, as far as that counts.
func (f *foreign) uses(now time.Time) int64 {
	return min(f.use, f.count(now))
}

// ledger is how much llmgov used in each second of the last minute. It is told the sum of the minute alone.
type ledger struct {
	seconds [60]int64 // by the second since 1970
	last    int64     // the latest
	used    int64     // sum of seconds
}

// note takes in how much was used in the last minute.
func (l *ledger) note(now time.Time, used int64) {
	l.advance(now)
	l.add(now, used-l.used)
}

// advance lets go of what is older than a minute.
func (l *ledger) advance(now time.Time) {
	second := now.Unix()
	for range min(max(0, second-l.last), 60) {
		l.last++
		at := &l.seconds[l.last%60]
		l.used -= *at
		*at = 0
	}
	l.last = max(l.last, second)
}

// add adds what was used at a time of the last minute.
func (l *ledger) add(at time.Time, used int64) {
	if second := at.Unix(); l.last-second < 60 {
		l.seconds[min(second, l.last)%60] += used
		l.used += used
	}
}

// counted is how much of what was used counts, by a way of counting, when so much is left.
func (l *ledger) counted(by way, at *Left) int64 {
	switch by {
	case bucket:
		return l.debt(float64(at.Limit) / at.Window.Seconds())
	case fixed:
		return l.since(at.Window - at.Reset)
	}
	return l.since(at.Window)
}

// since is what was used in a time up to the last look, and in the second before.
func (l *ledger) since(d time.Duration) (sum int64) {
	for i := range min(int64(d/time.Second)+2, 60) {
		sum += l.seconds[(l.last-i+60)%60]
	}
	return sum
}

// debt is what is left of what was used if so much of it is paid off in each second.
func (l *ledger) debt(rate float64) int64 {
	sum := int64(0)
	most := int64(0)
	for i := range int64(60) {
		sum += l.seconds[(l.last-i+60)%60]
		most = max(most, sum-int64(rate*float64(i)))
	}
	return most
}
