package upstreams

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"
)

// poolsAt are those at one account, each with a model of its own.
type poolsAt struct {
	*Account
	sets    []*Set
	limits  []Told
	claims  []Claim
	foreign int64 // used by others
}

const accountLimit = 300_000

func newPools(used []int64, own ...int64) *poolsAt {
	p := &poolsAt{}
	for i, limit := range own {
		p.sets = append(p.sets, New([]Spec{{Name: "up", Weight: 1, Account: "a"}}, nil))
		p.limits = append(p.limits, Told{Tokens: limit})
		p.claims = append(p.claims, Claim{Used: Told{Tokens: used[i]}})
	}
	p.Account = NewAccounts(p.sets, p.limits)["a"]
	p.Look(t0.Add(-10*time.Second), 0, p.sets[0].Members[0], "m", &Remains{}, p.claims, 0, false) // so that it was not used just now
	return p
}

// offBy has the models of two pools be off from each other.
func (p *poolsAt) offBy(one, other, by int) {
	p.modelLocked(one, "m").off[p.modelLocked(other, "m")][Tokens] = by
}

// answer has a pool's upstream say what is left, of what some pools and others have used.
func (p *poolsAt) answer(now time.Time, pool int, counts ...int) {
	left := accountLimit - p.foreign
	for _, i := range counts {
		left -= max(0, p.claims[i].Used[Tokens])
	}
	m := p.sets[pool].Members[0]
	m.Report(now, Result{Outcome: Served, Told: Told{Tokens: accountLimit}, Model: "m", Began: now})
	p.Look(now, pool, m, "m", &Remains{Tokens: {Limit: accountLimit, Left: left, Window: time.Minute, Reset: 40 * time.Second}}, p.claims, 0, false)
}

// leave is how much is left of each pool's limit.
func (p *poolsAt) leave(now time.Time) (all []int64) {
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

// A pool that nobody called yet goes by the least that others leave of the limits of any, in whatever order these come.
func TestAccount_NotCalled(t *testing.T) {
	left := func(foreign ...int64) int64 {
		used := make([]int64, len(foreign)+1)
		own := slices.Repeat([]int64{accountLimit}, len(used))
		p := newPools(used, own...)
		for i, others := range foreign {
			p.foreign = others
			for range agreeing {
				p.answer(t0, i)
			}
			for j := range i {
				p.offBy(j, i, agreeing)
			}
		}
		return p.leave(t0)[len(foreign)]
	}
	for _, x := range [][]int64{{60_000, 180_000}, {60_000, 240_000, 120_000}} {
		want := left(slices.Max(x))
		if got := left(x...); got != want {
			t.Errorf("beside pools at limits of which others use %d, %d are left, want %d", x, got, want)
		}
		slices.Reverse(x)
		if got := left(x...); got != want {
			t.Errorf("beside pools at limits of which others use %d, %d are left, want %d", x, got, want)
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
	if p.offLocked(Tokens, 0, nil)[1] > 0 {
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
	if p.offLocked(Tokens, 0, nil)[1] > 0 {
		t.Error("they are taken to be apart")
	}
	p.claims[1].Used[Tokens] = 140_000
	p.answer(t0.Add(3*time.Second), 0, 0, 1)
	if n := p.own[1][Tokens].since(0); n != 0 {
		t.Errorf("%d are taken to be used just now", n)
	}
}

// What others leave of a pool's limits is the least of what those tell that are counted with it, if its own calls do not.
func TestAccount_Room(t *testing.T) {
	p := newPools([]int64{0, 0, 0}, accountLimit, accountLimit, accountLimit)
	p.offBy(0, 1, -agreeing)
	p.offBy(0, 2, -agreeing)
	const least = accountLimit / 2
	for _, rooms := range [][]Told{{{}, {Tokens: least}, {Tokens: accountLimit}}, {{}, {Tokens: accountLimit}, {Tokens: least}}} {
		if got := p.shareLocked(0, Tokens, rooms, p.claims); got != least {
			t.Errorf("of %v it may use %d", rooms, got)
		}
	}
}

// models is one pool that uses some models of an account with a rolling minute, and others.
type models struct {
	*poolsAt
	took    map[string]int64 // by calls that have ended, at the time of the last
	foreign map[string]int64
}

func newModels(took map[string]int64) *models {
	sum := int64(0)
	for _, n := range took {
		sum += n
	}
	return &models{poolsAt: newPools([]int64{sum}, accountLimit), took: took, foreign: map[string]int64{}}
}

// end books what calls took that began at a time and have ended now.
func (m *models) end(now, began time.Time) {
	for model, n := range m.took {
		m.modelLocked(0, model)
		m.Took(now, began, 0, model, Told{Tokens: n})
	}
}

// answer has the upstream say of each model what is left of so much of what some have used.
func (m *models) answer(now time.Time, counts map[string][]string) {
	up := m.sets[0].Members[0]
	for _, model := range []string{"m", "n"} {
		left := int64(accountLimit)
		for _, one := range counts[model] {
			left -= m.took[one] + m.foreign[one]
		}
		up.Report(now, Result{Outcome: Served, Told: Told{Tokens: accountLimit}, Model: model, Began: now})
		m.Look(now, 0, up, model, &Remains{Tokens: {Limit: accountLimit, Left: left, Window: time.Minute, Reset: 59 * time.Second}}, m.claims, 0, false)
	}
}

// What a pool uses of a model that is counted by itself hides nobody who uses another one, and of what it uses in all as much is left to others as the
// model needs. What is in flight, or was used at other gateways, may be of any model, and is taken for nobody's.
func TestAccount_Models(t *testing.T) {
	apart := map[string][]string{"m": {"m"}, "n": {"n"}}
	together := map[string][]string{"m": {"m", "n"}, "n": {"m", "n"}}
	for name, c := range map[string]struct {
		counts          map[string][]string
		foreign, unseen int64
		seen, left      int64
	}{
		"apart, nobody else":         {apart, 0, 0, 0, accountLimit},
		"apart, others at one":       {apart, 120_000, 0, 120_000, 241_500}, // 172,500 of it, as of 210,000 150,000 are
		"apart, some in flight":      {apart, 120_000, 30_000, 90_000, 270_000},
		"together, nobody else":      {together, 0, 0, 0, accountLimit},
		"together, others beside it": {together, 60_000, 0, 60_000, 237_000},
		"together, some in flight":   {together, 60_000, 30_000, 30_000, 267_000},
	} {
		m := newModels(map[string]int64{"m": 150_000, "n": 60_000})
		m.foreign["m"] = c.foreign
		m.claims[0].Used[Tokens] += c.unseen
		m.end(t0, t0.Add(-10*time.Second))
		for i := range time.Duration(3 * agreeing) {
			m.answer(t0.Add(i*100*time.Millisecond), c.counts)
		}
		now := t0.Add(time.Second)
		if got := m.sets[0].Members[0].State(now).Foreign[Tokens]; got != c.seen {
			t.Errorf("%s: %d are seen used by others, want %d", name, got, c.seen)
		}
		if got := m.leave(now)[0]; max(got-c.left, c.left-got) > 1 {
			t.Errorf("%s: %d are left, want %d", name, got, c.left)
		}
	}
}

// Models of limits that differ are counted apart, though their calls come seconds apart: others at the smaller limit do not bind the pool to it. A limit
// that has changed is no such sign.
func TestAccount_LimitsDiffer(t *testing.T) {
	const small, large = 30_000, 2_000_000
	for name, c := range map[string]struct {
		m, n, later int64 // later is that of both in the second half
		apart       bool
	}{
		"two limits":   {large, small, 0, true},
		"one is moved": {small, small, large, false},
	} {
		p := newPools([]int64{6000}, large)
		up := p.sets[0].Members[0]
		for i := range 20 {
			now := t0.Add(time.Duration(i) * 3 * time.Second)
			model, limit, took, used := "m", c.m, int64(550), int64(5500)
			if i%2 == 1 {
				model, limit, took, used = "n", c.n, 50, 20_500
			}
			if i >= 10 {
				limit = cmp.Or(c.later, limit)
			}
			up.Report(now, Result{Outcome: Served, Told: Told{Tokens: limit}, Model: model, Began: now})
			p.Look(now, 0, up, model, &Remains{Tokens: {Limit: limit, Left: limit - used, Window: time.Minute}}, p.claims, 0, false)
			p.Took(now, now, 0, model, Told{Tokens: took})
		}
		if by := p.modelLocked(0, "m").off[p.modelLocked(0, "n")][Tokens]; by > 0 != c.apart {
			t.Errorf("%s: they are apart by %d", name, by)
		}
		if got := p.leave(t0.Add(time.Minute))[0]; c.apart && got < 100_000 { // a twelfth of its use is of the small one
			t.Errorf("%s: %d are left", name, got)
		}
	}
}

// What a call took counts from when it began, as it does in the pool: it is not missing there from what another model used once that minute is over.
func TestAccount_TookFromItsBeginning(t *testing.T) {
	m := newModels(map[string]int64{"m": 10_000})
	m.end(t0, t0.Add(-40*time.Second))
	c := m.modelLocked(0, "m")
	for after, want := range map[time.Duration]int64{15 * time.Second: 10_000, 25 * time.Second: 0} {
		l := c.took[Tokens]
		l.advance(t0.Add(after))
		if l.used != want {
			t.Errorf("%v later %d count, want %d", after, l.used, want)
		}
	}
	m.end(t0, t0.Add(-2*time.Minute))
	if n := c.took[Tokens].used; n != 10_000 {
		t.Errorf("with a call of two minutes %d count", n)
	}
}

// Models that a bucket counts together stay so, though hardly anything is missing there while the pool uses much.
func TestAccount_Bucket(t *testing.T) {
	p := newPools([]int64{0}, accountLimit)
	bucket := provider{way: "bucket", limit: accountLimit, at: t0}
	up := p.sets[0].Members[0]
	const each = 2500
	for i := range time.Duration(600) {
		now := t0.Add(i * 500 * time.Millisecond)
		model := []string{"m", "n"}[i%2]
		_, left := bucket.call(now, each)
		if i == 100 || i == 101 {
			_, left = bucket.call(now, accountLimit/10) // others
		}
		p.claims[0].Used[Tokens] = min(int64(i)+1, 120) * each
		up.Report(now, Result{Outcome: Served, Told: Told{Tokens: accountLimit}, Model: model, Began: now})
		p.Look(now, 0, up, model, &Remains{Tokens: left}, p.claims, 0, false)
		p.Took(now, now, 0, model, Told{Tokens: each})
		if by := p.modelLocked(0, "m").off[p.modelLocked(0, "n")]; by != nil && by[Tokens] > 0 {
			t.Fatalf("after %v they are taken to be apart", now.Sub(t0))
		}
	}
}

// What is known of pools and models outlives any number of names in one of the pools, as long as they are called in between.
func TestAccount_ManyNames(t *testing.T) {
	p := newPools([]int64{0, 0}, accountLimit, accountLimit)
	p.offBy(0, 1, agreeing)
	for i := range 10 * mostModels {
		now := t0.Add(time.Duration(i) * time.Second)
		if i%(mostModels/2) == 0 {
			p.Look(now, 1, p.sets[1].Members[0], "m", &Remains{}, p.claims, 0, false)
		}
		p.Look(now, 1, p.sets[1].Members[0], fmt.Sprint(i), &Remains{}, p.claims, 0, false)
	}
	c := p.modelLocked(0, "m")
	if by := p.offLocked(Tokens, 0, c)[1]; by != agreeing {
		t.Errorf("they are apart by %d", by)
	}
	if len(p.seen.models) != 1+mostModels || len(c.off) != mostModels {
		t.Errorf("%d models are known, beside %d", len(p.seen.models), len(c.off))
	}
}

// What calls took of each model is of no use until a pool has several, not only its account.
func TestAccount_Several(t *testing.T) {
	p := newPools([]int64{0, 0}, accountLimit, accountLimit)
	for _, c := range []struct {
		pool  int
		model string
		want  bool
	}{{0, "m", false}, {1, "n", false}, {1, "o", true}, {0, "m", true}} {
		if p.modelLocked(c.pool, c.model); p.Several() != c.want {
			t.Errorf("with %s of pool %d: several is %v", c.model, c.pool, !c.want)
		}
	}
}

// Callers who make up names of models cost no more memory than so many.
func TestAccount_ManyModels(t *testing.T) {
	m := newModels(nil)
	for i := range 10 * mostModels {
		m.modelLocked(0, fmt.Sprint(i))
	}
	if n := len(m.seen.models); n > mostModels {
		t.Errorf("%d models are known", n)
	}
}
