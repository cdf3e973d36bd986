package upstreams

import (
	"slices"
	"testing"
	"time"
)

// pools are those at one account, each with a model of its own.
type pools struct {
	*Account
	sets    []*Set
	limits  []Told
	claims  []Claim
	foreign int64 // used by others
}

const accountLimit = 300_000

func newPools(used []int64, own ...int64) *pools {
	p := &pools{}
	for i, limit := range own {
		p.sets = append(p.sets, New([]Spec{{Name: "up", Weight: 1, Account: "a"}}, nil))
		p.limits = append(p.limits, Told{Tokens: limit})
		p.claims = append(p.claims, Claim{Used: Told{Tokens: used[i]}})
	}
	p.Account = NewAccounts(p.sets, p.limits)["a"]
	p.Look(t0.Add(-10*time.Second), 0, p.sets[0].Members[0], "m", &Remains{}, p.claims, 0, false) // so that it was not used just now
	return p
}

// answer has a pool's upstream say what is left, of what some pools and others have used.
func (p *pools) answer(now time.Time, pool int, counts ...int) {
	left := accountLimit - p.foreign
	for _, i := range counts {
		left -= max(0, p.claims[i].Used[Tokens])
	}
	m := p.sets[pool].Members[0]
	m.Report(now, Result{Outcome: Served, Told: Told{Tokens: accountLimit}, Model: "m", Began: now})
	p.Look(now, pool, m, "m", &Remains{Tokens: {Limit: accountLimit, Left: left, Window: time.Minute, Reset: 40 * time.Second}}, p.claims, 0, false)
}

// leave is how much is left of each pool's limit.
func (p *pools) leave(now time.Time) (all []int64) {
	p.Share(now, p.claims)
	for i, s := range p.sets {
		limit := p.limits[i][Tokens]
		for _, cut := range s.Cuts(now, p.limits[i]) {
			limit -= cut.Less[Tokens]
		}
		all = append(all, limit)
	}
	return all
}

// Pools of one account use together what others leave, also those whose models nobody called yet: what nobody uses is divided between those
// that use some, by their limits, and where calls wait, all but what those use which do not wait.
func TestAccount(t *testing.T) {
	const all = accountLimit
	for name, c := range map[string]struct {
		limits, used []int64
		waits        []bool
		foreign      int64
		want         []int64
	}{
		"a second one begins":     {[]int64{all, all}, []int64{all, 0}, []bool{false, false}, 0, []int64{all, 1250}},
		"its calls wait":          {[]int64{all, all}, []int64{all, 0}, []bool{true, true}, 0, []int64{all, 1250}},
		"one is found to share":   {[]int64{all, all}, []int64{298_000, 1000}, []bool{true, true}, 0, []int64{150_000, 1500}},
		"it has some":             {[]int64{all, all}, []int64{200_000, 90_000}, []bool{true, true}, 0, []int64{150_000, 99_000}},
		"it has enough":           {[]int64{all, all}, []int64{200_000, 90_000}, []bool{true, false}, 0, []int64{210_000, 99_000}},
		"others use some":         {[]int64{all, all}, []int64{100_000, 1000}, []bool{true, true}, 120_000, []int64{88_500, 76_995}},
		"others use nearly all":   {[]int64{all, all}, []int64{10_000, 5000}, []bool{true, true}, 280_000, []int64{30_000, 30_000}},
		"a third":                 {[]int64{200_000, 100_000}, []int64{180_000, 60_000}, []bool{true, true}, 0, []int64{200_000, 100_000}},
		"of three one is unknown": {[]int64{all, all, all}, []int64{298_000, 1000, 0}, []bool{true, true, true}, 0, []int64{150_000, 1500, 833}},
		"one of three has enough": {[]int64{all, all, all}, []int64{200_000, 80_000, 0}, []bool{true, false, true}, 0, []int64{219_000, 99_000, 19_500}},
		"it uses a little more":   {[]int64{all, all, all}, []int64{200_000, 80_900, 0}, []bool{true, false, true}, 0, []int64{219_000, 99_000, 18_000}},
		"one of no limit":         {[]int64{all, 0}, []int64{100_000, unlimited}, []bool{true, true}, 120_000, []int64{177_000, 0}},
		"a third one of no limit": {[]int64{all, all, 0}, []int64{all, 0, unlimited}, []bool{true, true, true}, 0, []int64{all, 1250, 0}},
	} {
		p := newPools(c.used, c.limits...)
		p.foreign = c.foreign
		counts := make([]int, len(c.used))
		for i := range counts {
			counts[i] = i
			p.claims[i].Waits = c.waits[i]
		}
		for range agreeing {
			p.answer(t0, 0, counts...)
			if c.used[1] > 0 {
				p.answer(t0, 1, counts...)
			}
		}
		if got := p.leave(t0); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v are left, want %v", name, got, c.want)
		}
	}
}

const unlimited = -1

// Pools that a provider counts by themselves are found out by what is left, each may use all of its limit then, and what one uses hides nobody at the
// other. Pools that are counted together stay so beside one that is not.
func TestAccount_Apart(t *testing.T) {
	p := newPools([]int64{140_000, 140_000, 290_000}, accountLimit, accountLimit, accountLimit)
	for i := range time.Duration(agreeing) {
		p.answer(t0.Add(i*time.Second), 0, 0, 1)
		p.answer(t0.Add(i*time.Second+1), 1, 0, 1)
		p.answer(t0.Add(i*time.Second+2), 2, 2)
	}
	for _, reload := range []bool{false, true} {
		if reload {
			was := p.Account
			p.Account = NewAccounts(p.sets, p.limits)["a"]
			p.Keep(was)
		}
		if got, want := p.leave(t0.Add(3*time.Second)), []int64{159_000, 159_000, accountLimit}; !slices.Equal(got, want) {
			t.Errorf("after a reload %v: %v are left, want %v", reload, got, want)
		}
	}
	p.claims[2].Used[Tokens] = 100_000
	p.foreign = 120_000
	for i := range time.Duration(agreeing) {
		p.answer(t0.Add((5+i)*time.Second), 2, 2)
	}
	if s := p.sets[2].Members[0].State(t0.Add(8 * time.Second)); s.Foreign[Tokens] != 120_000 {
		t.Errorf("%d are seen used by others", s.Foreign[Tokens])
	}
}

// A pool that is alone at an account, as it is after a reload, has all of it at once.
func TestAccount_Alone(t *testing.T) {
	p := newPools([]int64{298_000, 1000}, accountLimit, accountLimit)
	for range agreeing {
		p.answer(t0, 0, 0, 1)
		p.answer(t0, 1, 0, 1)
	}
	p.claims[1].Waits = true
	if got := p.leave(t0)[0]; got != accountLimit/2 {
		t.Fatalf("%d are left beside another pool", got)
	}
	p.sets = p.sets[:1]
	p.Account = NewAccounts(p.sets, p.limits[:1])["a"]
	if got := p.leave(t0)[0]; got != accountLimit {
		t.Errorf("%d are left to a pool alone", got)
	}
}

// Pools of a small limit are not taken to be counted apart by calls that only one of two answers counts yet.
func TestAccount_OnTheWay(t *testing.T) {
	p := newPools([]int64{100_000, 100_000}, accountLimit, accountLimit)
	for i := range time.Duration(agreeing) {
		now := t0.Add(i * 3 * time.Second)
		p.answer(now, 0, 0, 1)
		p.claims[1].Used[Tokens] += accountLimit / 6
		p.answer(now.Add(1), 1, 0, 1)
	}
	if !p.togetherLocked(0, 1, Tokens) {
		t.Error("they are taken to be apart")
	}
}

// A pool of which it is not known for a time what it used is not compared meanwhile, nor is its use taken to be new after that.
func TestAccount_Unknown(t *testing.T) {
	p := newPools([]int64{140_000, 140_000}, accountLimit, accountLimit)
	p.answer(t0, 1, 0, 1)
	p.claims[1].Used[Tokens] = -1
	for i := range time.Duration(agreeing) {
		p.answer(t0.Add(i), 0, 0)
	}
	if !p.togetherLocked(0, 1, Tokens) {
		t.Error("they are taken to be apart")
	}
	p.claims[1].Used[Tokens] = 140_000
	p.answer(t0.Add(3*time.Second), 0, 0, 1)
	if n := p.looks[1].own[Tokens].since(0); n != 0 {
		t.Errorf("%d are taken to be used just now", n)
	}
}

// What others leave of a pool's limits is the mean of what those tell that are counted with it, if its own calls do not.
func TestAccount_Room(t *testing.T) {
	p := newPools([]int64{0, 0, 0}, accountLimit, accountLimit, accountLimit)
	p.looks[0].off[2][Tokens] = -agreeing
	tell := Told{Tokens: accountLimit}
	if got := p.shareLocked(0, Tokens, []Told{{}, tell, tell}, p.claims); got != accountLimit {
		t.Errorf("it may use %d", got)
	}
}
