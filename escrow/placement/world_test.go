package placement

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/escrow/limits"
)

// limited are the axes on which upstreams of a small world have limits.
var limited = []limits.Axis{limits.Tokens, limits.Output, limits.Concurrency}

// catalog are the upstreams of a small world, by their names. One has no limit on calls, and the other limits output alone.
var catalog = map[string]Spec{
	"a": {Name: "a", Weight: 1, TPM: 2},
	"b": {Name: "b", Weight: 1, Order: 1, OTPM: 2, Concurrency: 1},
}

func limitsOf(u *Spec) [limits.Axes]int64 {
	return [limits.Axes]int64{limits.Tokens: u.TPM, limits.Output: u.OTPM, limits.Concurrency: u.Concurrency}
}

// minuteOf is the axis on which an upstream has a limit of a minute, and that limit.
func minuteOf(u *Spec) (k limits.Axis, limit int64) {
	if u.OTPM > 0 {
		return limits.Output, u.OTPM
	}
	return limits.Tokens, u.TPM
}

// taking is the cost of a call, or of none, that took so many tokens, all of them output.
func taking(tokens, requests int64) escrow.Cost {
	return escrow.Cost{escrow.Tokens: tokens, escrow.Requests: requests, escrow.Output: tokens}
}

// small is a state of a playground.
type small struct {
	*playground
	now      time.Time
	gateways []*smallGateway
	all      []*smallCall
	counted  []counted // by the providers
	gone     []held    // by gateways that are lost
	passed   []bool    // by jumps
	loaded   []bool    // by reloads
	crashed  bool
	closed   bool
	broken   string // a rule that was broken on the way
}

// smallGateway is a process with a pool. Its parts of the limits are its own, as the store knows them.
type smallGateway struct {
	pool  *escrow.Pool
	leaf  escrow.NodeID
	books *Books[Account]
	has   map[string][limits.Axes]int64
	list  string
	shut  string // the upstream that is closed here
}

// smallCall is a call of one token.
type smallCall struct {
	of       *smallGateway
	via      string // the names of upstreams
	handle   escrow.Handle
	upstream string // where it runs; "" while it waits, and after its end
	began    time.Time
	ended    bool
	vain     int64 // what it took of upstreams before
}

// counted is a token at an upstream, as its provider counts it.
type counted struct {
	upstream string
	at       time.Time
}

// held is an amount of a limit that may have been used.
type held struct {
	upstream string
	axis     limits.Axis
	amount   int64
	until    time.Time
}

func newSmall(g *playground) *small {
	w := &small{playground: g, now: t0, passed: make([]bool, len(g.jumps)), loaded: make([]bool, len(g.reloads))}
	for range g.gateways {
		w.gateways = append(w.gateways, w.open())
	}
	for name, u := range catalog { // all parts are with the first gateway, but for a token
		w.gateways[0].has[name] = limitsOf(&u)
		if g.gateways > 1 {
			k, limit := minuteOf(&u)
			first := [limits.Axes]int64{limits.Concurrency: u.Concurrency}
			second := [limits.Axes]int64{}
			first[k] = limit - 1
			second[k] = 1
			w.gateways[0].has[name] = first
			w.gateways[1].has[name] = second
		}
	}
	for _, p := range w.gateways {
		w.grant(p)
	}
	return w
}

// open starts a gateway that has nothing.
func (w *small) open() *smallGateway {
	p := &smallGateway{has: map[string][limits.Axes]int64{}}
	p.pool = escrow.New(w.now, escrow.Config{Slots: 100, MaxQueue: 10})
	p.leaf = p.pool.Add(escrow.Root, escrow.Node{Weight: 1})
	w.load(p, "ab")
	return p
}

// load puts a list of upstreams in force.
func (w *small) load(p *smallGateway, list string) {
	config := Config{Holds: w.holds}
	for _, name := range list {
		config.Upstreams = append(config.Upstreams, catalog[string(name)])
	}
	before := p.books
	p.books = before.Next(w.now, config, func(string) Account { return Account{limits.New(true, nil)} })
	for _, u := range p.books.List {
		u.Limits.Configure(w.now, u.Spec.Limits(), 0)
	}
	p.list = list
	for _, c := range w.all {
		if c.of == p && c.waits() {
			c.via = allowed(c.via, list)
		}
	}
	p.pool.SetUpstreams(p.books, p.books.Since(before))
	w.grant(p)
}

// grant puts a gateway's parts in force.
func (w *small) grant(p *smallGateway) {
	for _, u := range p.books.List {
		u.Limits.Advance(w.now)
		u.Limits.Renew(w.now.Add(time.Hour))
		for _, k := range limited {
			u.Limits.Allow(k, p.has[u.Name][k])
		}
	}
	w.pump(p)
}

// steps are all that can happen now.
func (w *small) steps() (list []step) {
	add := func(k kind, at, ways int) {
		for with := range ways {
			list = append(list, step{k, at, with})
		}
	}
	for i := range w.gateways {
		if len(w.all) < w.calls {
			add(offer, i, len(w.via))
		}
		if w.exchanges > 0 && len(w.gateways) > 1 {
			add(exchange, i, 2)
		}
		if w.playground.crash && !w.crashed {
			add(crash, i, 1)
		}
		if w.playground.close && !w.closed {
			add(shut, i, 2)
		}
	}
	for i, c := range w.all {
		if c.upstream != "" {
			add(settle, i, 2)
			if w.moves > 0 {
				add(move, i, 2)
			}
		}
	}
	for i, done := range w.passed {
		if !done {
			add(pass, i, 1)
		}
	}
	for i, done := range w.loaded {
		if !done {
			add(reload, i, 1)
		}
	}
	return list
}

// take has a step happen.
func (w *small) take(s step) {
	used := *w.playground // what may happen less often from now on
	switch s.kind {
	case offer:
		w.offer(w.gateways[s.at], w.via[s.with])
	case settle:
		w.settle(w.all[s.at], int64(s.with))
	case move:
		used.moves--
		w.move(w.all[s.at], int64(s.with))
	case exchange:
		used.exchanges--
		w.exchange(w.gateways[s.at], s.with == 1)
	case reload:
		w.loaded[s.at] = true
		for _, p := range w.gateways {
			w.load(p, w.reloads[s.at])
		}
	case pass:
		w.passed[s.at] = true
		w.now = w.now.Add(w.jumps[s.at])
	case crash:
		w.crashed = true
		w.lose(s.at)
	case shut:
		w.closed = true
		w.shut(w.gateways[s.at], []string{"a", "b"}[s.with])
	}
	w.playground = &used
	for _, p := range w.gateways {
		w.pump(p)
	}
}

func (w *small) offer(p *smallGateway, via string) {
	c := &smallCall{of: p, via: via}
	mask := escrow.Mask(0)
	for i, u := range p.books.List {
		if strings.Contains(via, u.Name) {
			mask = mask.With(i)
		}
	}
	c.via = allowed(via, p.list)
	h, answer := p.pool.Offer(w.now, escrow.Call{
		Leaf: p.leaf, Most: taking(1, 1), Via: p.books.Mask(uint64(mask)), MaxWait: time.Hour,
	})
	c.handle = h
	w.all = append(w.all, c)
	if answer.Verdict == escrow.Admitted {
		w.begin(c)
	}
}

// allowed are the upstreams of a list that a call may use: all, if it knows none of them.
func allowed(via, list string) (both string) {
	for _, name := range list {
		if strings.ContainsRune(via, name) {
			both += string(name)
		}
	}
	if both == "" {
		return list
	}
	return both
}

func (c *smallCall) waits() bool { return c.upstream == "" && !c.ended }

// pump has calls begin.
func (w *small) pump(p *smallGateway) {
	for _, h := range p.pool.Pump(w.now, nil) {
		for _, c := range w.all {
			if c.of == p && c.handle == h {
				w.begin(c)
			}
		}
	}
}

// begin notes where a call begins.
func (w *small) begin(c *smallCall) {
	at := c.of.books.At(c.handle.Slot)
	switch {
	case at == nil:
		w.broken = "a call begins at no upstream"
		return
	case !strings.Contains(c.via, at.Name):
		w.broken = fmt.Sprintf("a call for %s begins at %s", c.via, at.Name)
	case c.of.shut == at.Name:
		w.broken = "a call begins at an upstream that is closed"
	}
	c.upstream = at.Name
	c.began = w.now
	if !w.holds {
		w.counted = append(w.counted, counted{at.Name, w.now})
	}
}

// spend has the provider count what a call took of where it runs. One that counts at admission takes back what was counted too much.
func (w *small) spend(c *smallCall, took int64) {
	switch {
	case w.holds && took > 0:
		w.counted = append(w.counted, counted{c.upstream, w.now})
	case !w.holds && took == 0:
		i := slices.Index(w.counted, counted{c.upstream, c.began})
		w.counted = slices.Delete(w.counted, i, i+1)
	}
}

func (w *small) settle(c *smallCall, took int64) {
	w.spend(c, took)
	c.upstream = ""
	c.ended = true
	if !c.of.pool.Settle(w.now, c.handle, taking(c.vain+took, 1)) {
		w.broken = "a call that runs is unknown"
	}
}

func (w *small) move(c *smallCall, spent int64) {
	p := c.of
	others := escrow.Mask(0)
	for i, u := range p.books.List {
		if u.Name != c.upstream {
			others = others.With(i)
		}
	}
	if _, ok := p.pool.Move(w.now, c.handle, others, taking(spent, 1)); !ok {
		return
	}
	w.spend(c, spent)
	c.vain += spent
	c.via = p.list
	w.begin(c)
}

// shut closes an upstream at a gateway for good.
func (w *small) shut(p *smallGateway, name string) {
	p.shut = name
	for _, u := range p.books.List {
		if u.Name == name {
			u.Closed = w.now.Add(time.Hour)
		}
	}
}

// exchange has a gateway ask for all of the limits that no other has, or give back what it does not use.
func (w *small) exchange(p *smallGateway, greedy bool) {
	for _, u := range p.books.List {
		u.Limits.Advance(w.now)
		all := limitsOf(&u.Spec)
		has := p.has[u.Name]
		for _, k := range limited {
			has[k] = u.Limits.UsedHere(k)
			if free := all[k] - w.others(p, u.Name, k); greedy && all[k] > 0 {
				has[k] = max(has[k], free)
			}
		}
		p.has[u.Name] = has
	}
	w.grant(p)
}

// others is how much of a limit may be used without a gateway.
func (w *small) others(p *smallGateway, name string, k limits.Axis) (sum int64) {
	for _, o := range w.gateways {
		if o != p {
			sum += o.has[name][k]
		}
	}
	for _, h := range w.gone {
		if h.upstream == name && h.axis == k && w.now.Before(h.until) {
			sum += h.amount
		}
	}
	return sum
}

// lose ends a gateway with all its calls, which its providers may have counted until then, and opens another.
func (w *small) lose(at int) {
	p := w.gateways[at]
	for name, has := range p.has {
		u := catalog[name]
		k, _ := minuteOf(&u)
		w.gone = append(w.gone, held{name, k, has[k], w.now.Add(escrow.Window + time.Second)})
	}
	slices.SortFunc(w.gone, func(a, b held) int { return strings.Compare(a.upstream, b.upstream) })
	for _, c := range w.all {
		if c.of != p {
			continue
		}
		if c.upstream != "" {
			w.spend(c, 1)
		}
		c.upstream = ""
		c.ended = true
	}
	w.gateways[at] = w.open()
}

// wrong is a rule that is broken; "" if none is.
func (w *small) wrong() string {
	if w.broken != "" {
		return w.broken
	}
	for name, u := range catalog {
		_, limit := minuteOf(&u)
		if tokens, running := w.use(name, escrow.Window); tokens > limit || u.Concurrency > 0 && running > u.Concurrency {
			return fmt.Sprintf("%s has %d tokens and %d calls", name, tokens, running)
		}
	}
	for _, c := range w.all {
		if c.upstream == "" {
			continue
		}
		if at := c.of.books.At(c.handle.Slot); at == nil || at.Name != c.upstream {
			return fmt.Sprintf("a call at %s is known at %v", c.upstream, at)
		}
	}
	for _, p := range w.gateways {
		if wrong := w.waits(p); wrong != "" {
			return wrong
		}
		if err := p.pool.Check(); err != nil {
			return err.Error()
		}
	}
	return ""
}

// use is how many tokens an upstream has counted for some time, or may count at any time, and how many calls run there.
func (w *small) use(name string, within time.Duration) (tokens, running int64) {
	for _, x := range w.counted {
		if x.upstream == name && w.now.Sub(x.at) < within {
			tokens++
		}
	}
	for _, c := range w.all {
		if c.upstream == name {
			running++
		}
	}
	if w.holds {
		tokens += running
	}
	return tokens, running
}

// hasRoom reports whether an upstream has room for a call, by its provider if there is one gateway, else by the gateway's books.
func (w *small) hasRoom(p *smallGateway, u *Upstream[Account]) bool {
	if len(w.gateways) > 1 {
		_, lacks := u.lacks(w.now, CostOf(taking(1, 0)))
		return !lacks
	}
	const quarter = 250 * time.Millisecond // in which time is counted
	_, limit := minuteOf(&u.Spec)
	tokens, running := w.use(u.Name, escrow.Window+quarter)
	return p.shut != u.Name && tokens < limit && (u.Concurrency == 0 || running < u.Concurrency)
}

// waits tells of a call that waits while an upstream has room for it. It may be the first in line only: others wait behind it.
func (w *small) waits(p *smallGateway) string {
	for _, c := range w.all {
		if c.of != p || !c.waits() {
			continue
		}
		for _, u := range p.books.List {
			if strings.Contains(c.via, u.Name) && w.hasRoom(p, u) {
				return fmt.Sprintf("a call for %s waits, and %s has room", c.via, u.Name)
			}
		}
		return ""
	}
	return ""
}

// key tells states apart.
func (w *small) key() string {
	var b strings.Builder
	fmt.Fprint(&b, w.now.Sub(t0), w.exchanges, w.moves, w.passed, w.loaded, w.crashed, w.closed, w.broken)
	for _, x := range w.counted {
		fmt.Fprint(&b, " ", x.upstream, x.at.Sub(t0))
	}
	for _, h := range w.gone {
		fmt.Fprint(&b, " gone ", h.upstream, h.amount, h.until.Sub(t0))
	}
	for _, c := range w.all {
		fmt.Fprint(&b, "\ncall ", slices.Index(w.gateways, c.of), c.via, c.upstream, c.began.Sub(t0), c.ended, c.vain)
	}
	for _, p := range w.gateways {
		fmt.Fprint(&b, "\ngateway ", p.list, p.shut)
		for _, u := range slices.Concat(p.books.List, p.books.gone) {
			u.Limits.Advance(w.now)
			fmt.Fprint(&b, " ", u.Name, p.has[u.Name], u.turn, u.running, u.left.Sub(t0))
			k, _ := minuteOf(&u.Spec)
			fmt.Fprint(&b, u.Limits.UsedHere(k), u.Limits.Running(), u.Limits.FullAt(k).Sub(t0))
		}
	}
	return b.String()
}
