package governor

import (
	"bytes"
	"cmp"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/escrow/budget"
	"github.com/llmgov/llmgov/escrow/slots"
	"github.com/llmgov/llmgov/governor/record"
	"github.com/llmgov/llmgov/internal/test/testkit"
)

var rewrite = flag.Bool("rewrite", false, "write down what happens in testdata/calls, in place of what is there")

// The transcripts of testdata/calls are documents: what a governor is told, a line each, and under it, indented, what came of it, with its
// time if that is another one. Fields of the configuration and of requests have their names in the code; tokens are input+output. All time is virtual.
func TestTranscripts(t *testing.T) {
	files := testkit.Must(filepath.Glob("testdata/calls/*.txt"))(t)
	if len(files) < 20 {
		t.Fatalf("there are %d transcripts, of 20 at least", len(files))
	}
	for _, name := range files {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txt"), func(t *testing.T) {
			was := testkit.Must(os.ReadFile(name))(t)
			is := transcribe(t, string(was))
			switch {
			case bytes.Equal(was, is):
			case *rewrite:
				testkit.OK(t, os.WriteFile(name, is, 0o600))
			default:
				t.Errorf("%s: what happens is not what is written there (go test ./governor -run Transcripts -rewrite):\n%s", name, is)
			}
		})
	}
}

// transcript is one that is played.
type transcript struct {
	*testing.T
	g       *Governor
	clock   *late
	began   time.Time
	at      time.Time // of the line that is told
	cfg     Config
	journal failing

	out    bytes.Buffer
	came   []string // of the line that is told
	leases map[string]Lease
	names  map[uint64]string // of calls, by number
	leave  map[string]func()
	asked  map[string]*SharedCall
	stops  map[uint64]stop // of calls that wait, by number
}

// stop is what a call waits for: its stage, and the line in which it stands or its question.
type stop struct {
	stage stage
	line  *inLine
	store *storeCall
}

// failing is a journal that keeps nothing, or fails.
type failing struct {
	tell  func(string)
	fails bool
}

func (j *failing) Append(r record.Record) error {
	if j.fails {
		j.tell("the journal fails")
		return errors.New("the disk is full")
	}
	j.tell(fmt.Sprintf("the journal has that %s's call %s", r.Tenant, [...]string{"", "begins", "runs", "has grown", "has ended"}[r.Kind]))
	return nil
}

// transcribe plays a transcript, and writes it anew.
func transcribe(t *testing.T, text string) []byte {
	x := &transcript{
		T: t, clock: &late{now: time.Unix(1_000_000, 0)}, leases: map[string]Lease{}, names: map[uint64]string{}, leave: map[string]func(){},
		asked: map[string]*SharedCall{},
	}
	x.began = x.clock.now
	x.at = x.began
	x.journal.tell = x.tell
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, "  ") { // what came of the line above, which is found out
			continue
		}
		x.flush()
		x.out.WriteString(line + "\n")
		words := strings.Fields(line)
		if len(words) == 0 || words[0] == "#" {
			continue
		}
		if x.configured(words) {
			if x.g != nil && (i+1 == len(lines) || !slices.Contains([]string{"pool", "tenant"}, strings.SplitN(lines[i+1], " ", 2)[0])) {
				x.apply()
			}
			continue
		}
		if x.g == nil {
			x.start()
		}
		x.reach(testkit.Must(time.ParseDuration(words[0]))(t))
		if len(words) > 1 {
			x.do(words[1], words[2:])
			x.look()
		}
	}
	x.flush()
	return x.out.Bytes()
}

// flush writes what came of a line.
func (x *transcript) flush() {
	for _, what := range x.came {
		x.out.WriteString("  " + what + "\n")
	}
	x.came = nil
}

// configured reads a line of the configuration, if it is one.
func (x *transcript) configured(words []string) bool {
	switch words[0] {
	case "process":
		x.set(&x.cfg, words[1:])
	case "pool":
		p := Pool{Name: words[1]}
		x.set(&p, words[2:])
		x.cfg.Pools = append(x.cfg.Pools, p)
	case "tenant":
		t := Tenant{Name: words[1], Weight: 1}
		x.set(&t, words[2:])
		x.cfg.Tenants = append(x.cfg.Tenants, t)
	default:
		return false
	}
	return true
}

// set sets fields by their names: Field=value, or Field for true.
func (x *transcript) set(of any, words []string) {
	for _, word := range words {
		name, value, _ := strings.Cut(word, "=")
		switch {
		case name == "journal":
			x.cfg.Journal = &x.journal
			continue
		case name == "again":
			of.(*Request).Claim = escrow.Claim{Retry: escrow.RetryAgain}
			continue
		}
		f := reflect.ValueOf(of).Elem().FieldByName(name)
		if !f.IsValid() {
			x.Fatalf("no %T has a %s", of, name)
		}
		switch to := f.Addr().Interface().(type) {
		case *bool:
			*to = true
		case *time.Duration:
			*to = testkit.Must(time.ParseDuration(value))(x.T)
		case **time.Duration:
			d := testkit.Must(time.ParseDuration(value))(x.T)
			*to = &d
		case *[]Budget:
			amount, per, _ := strings.Cut(value, "/")
			b := Budget{Limit: x.number(amount), Per: map[string]budget.Period{"hour": budget.Hour, "day": budget.Day}[per]}
			*to = append(*to, b)
		case *LimitsMode:
			*to = map[string]LimitsMode{"strict": LimitsStrict, "cached_deny": LimitsCachedDeny}[value]
		case *OnLoss:
			*to = map[string]OnLoss{"open": LossOpen, "local": LossLocal}[value]
		case *escrow.Weight:
			*to = escrow.Weight(x.number(value))
		default:
			f.SetInt(x.number(value))
		}
	}
}

func (x *transcript) number(s string) int64 { return testkit.Must(strconv.ParseInt(s, 10, 64))(x.T) }

// start makes the governor by the first lines.
func (x *transcript) start() {
	cfg := x.cfg
	cfg.Clock = x.clock
	cfg.Observer = x
	cfg.Fresh = true
	cfg.Detailed = true
	x.g = must(x.T, cfg)
	x.cfg.Pools, x.cfg.Tenants = nil, nil
}

// apply puts the lines of another configuration in force.
func (x *transcript) apply() {
	testkit.OK(x.T, x.g.Apply(x.cfg))
	x.cfg.Pools, x.cfg.Tenants = nil, nil
	x.look()
}

// reach lets time pass. What is due happens at its time.
func (x *transcript) reach(since time.Duration) {
	end := x.began.Add(since)
	for agenda := &x.g.line.agenda; len(*agenda) > 0 && !(*agenda)[0].at.After(end); {
		x.clock.now = later(x.clock.now, (*agenda)[0].at)
		x.g.Touch()
		x.look()
	}
	x.clock.now = end
	x.at = end
	x.g.Touch()
}

// tell writes down what happens.
func (x *transcript) tell(what string) {
	when := ""
	if now := x.g.line.now; !now.Equal(x.at) {
		when = fmt.Sprint(now.Sub(x.began).Round(time.Millisecond), ": ")
	}
	x.came = append(x.came, when+what)
}

// Observe tells of what the governor tells.
func (x *transcript) Observe(e Event) {
	switch e.Kind {
	case EventEnded:
		end := fmt.Sprintf("%s is %s after %v: %d+%d", x.names[e.Call], e.Ending, e.Ran, e.Usage.Input, e.Usage.Output)
		x.came = slices.Insert(x.came, 0, end) // what follows of it is told within the instant, and so before
	case EventApplied:
		x.came = slices.Insert(x.came, 0, "the configuration is in force") // likewise
	case EventThrottled:
		x.tell(fmt.Sprintf("%d cuts of %s are in force", len(e.Cuts), e.Request.Pool))
	}
}

// ask asks for a call: "ask 1 a 100+400", with fields of the request behind.
func (x *transcript) ask(id string, words []string) {
	in, out, _ := strings.Cut(words[1], "+")
	req := Request{ID: id, Tenant: words[0], Pool: "p", Model: "m", Input: x.number(in), Output: x.number(out)}
	x.set(&req, words[2:])
	x.names[x.g.asked+1] = id
	x.leave[id] = x.g.Ask(req, func(l Lease, rej *Refusal) {
		if rej != nil {
			x.tell(fmt.Sprintf("%s is refused for %s%s: %s", id, rej.Reason, waited(rej.Waited), rej.Error()))
			return
		}
		x.leases[id] = l
		what := ""
		if l.Would != nil {
			what = ", and would have been refused for " + l.Would.Reason.String()
		}
		x.tell(fmt.Sprintf("%s is admitted%s%s", id, waited(l.Waited), what))
	})
}

func waited(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return fmt.Sprint(" after ", d.Round(time.Millisecond))
}

// place says where a call waits.
func (x *transcript) place(c *call) string {
	switch c.stage {
	case pausing:
		return "because it can go nowhere yet, until " + x.when(c.until)
	case inALine:
		return "in line for a limit of " + whose(c.holds.chain[len(c.holds.holds)].own) + x.patience(c.until, later(c.may.until, c.place.least))
	case listening:
		return "for the store's answer, until " + x.when(c.until)
	case denied:
		return "in line for a limit of " + whose(c.store.in.own) + ", which the store refused" + x.patience(c.until, c.store.deadline)
	case lackingGrant:
		return "for a grant of the pool's budget" + x.patience(c.until, c.until)
	}
	return "in the pool's queue" + x.patience(c.until, c.until)
}

func whose(o *ownLimits) string { return (&SharedLimits{own: o}).Owner() }

// patience says when a call that waits looks again, or gives up if it has come by no change before.
func (x *transcript) patience(until, deadline time.Time) string {
	if until.Before(deadline) {
		return ", and looks again at " + x.when(until)
	}
	return ", and gives up at " + x.when(until)
}

func (x *transcript) when(at time.Time) string {
	return at.Sub(x.began).Round(time.Millisecond).String()
}

// do does what a line says.
func (x *transcript) do(verb string, words []string) {
	usage := func() Usage {
		in, out, _ := strings.Cut(words[1], "+")
		return Usage{Input: x.number(in), Output: x.number(out)}
	}
	switch verb {
	case "ask":
		x.ask(words[0], words[1:])
	case "leave":
		x.leave[words[0]]()
	case "progress":
		x.leases[words[0]].Progress(x.number(words[1]))
	case "settle":
		x.leases[words[0]].Settle(usage())
	case "break":
		x.leases[words[0]].Break(usage())
	case "charge":
		x.leases[words[0]].Charge(usage())
	case "release":
		x.leases[words[0]].Release()
	case "drain":
		x.g.Drain()
	case "journal":
		x.journal.fails = words[0] == "fails"
	case "cut":
		x.g.Throttle("p", []Cut{{Part: x.number(words[0]) * 10_000, Until: x.clock.now.Add(testkit.Must(time.ParseDuration(words[1]))(x.T))}})
	default:
		x.doShared(verb, words)
	}
}

// doShared does what whoever speaks with other processes says.
func (x *transcript) doShared(verb string, words []string) {
	now := x.clock.now
	until := now.Add(GrantLasts)
	switch verb {
	case "grant": // so many tokens a minute, and a second's worth at once
		s := x.g.SharedPools()[0]
		d, _ := s.Demand(now)
		rate := x.number(words[0])
		s.Allow(now, PoolGrant{Allowances: tokensOnly(escrow.Allowance{Since: now, Until: until, Level: rate / 60, Rate: rate, Spent: d.Spent[escrow.Tokens]})})
	case "allow": // so many slots
		x.g.pools["p"].grants.handle.Allow(now, until, &slots.Grant{Slots: x.number(words[0])}, nil)
	case "nobody": // answers
		x.g.SharedPools()[0].Alone(now, 2)
	case "let":
		x.asked[words[0]].Let(now, nil)
	case "refuse":
		c := x.asked[words[0]]
		takes := c.Takes(c.limits[0])
		c.Refuse(&takes[0], testkit.Must(time.ParseDuration(words[1]))(x.T))
	case "lose":
		x.asked[words[0]].Lose()
	default:
		x.Fatalf("nobody can %s", verb)
	}
}

// look tells which calls wait for something else than before, and what the governor wants of the store.
func (x *transcript) look() {
	list := slices.SortedFunc(maps.Keys(x.g.line.parked), func(a, b *parked) int { return cmp.Compare(a.number, b.number) })
	places := map[uint64]stop{}
	for _, p := range list {
		places[p.number] = stop{p.stage, p.place, p.store}
		if places[p.number] != x.stops[p.number] {
			x.tell(x.names[p.number] + " waits " + x.place(&p.call))
		}
	}
	x.stops = places
	for _, c := range x.g.SharedCalls() {
		id := x.names[c.holds.asked]
		x.asked[id] = c
		x.tell(fmt.Sprintf("the store is asked whether %s may go", id))
	}
}
