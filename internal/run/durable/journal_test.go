package durable

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/escrow"
	"github.com/llmgov/llmgov/escrow/adaptive"
	"github.com/llmgov/llmgov/escrow/budget"
	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/governor/record"
	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/internal/test/testkit/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// kill ends a journal like the end of its process does: nothing is saved, and the
// folder is free.
func (j *Journal) kill() {
	j.mu.Lock()
	f := j.file
	j.file = nil
	j.mu.Unlock()
	_ = f.Close()
	_ = j.books.db.Close()
}

func options(dir string) Options {
	return Options{Dir: dir, Log: slog.New(slog.DiscardHandler)}
}

// life is one process.
type life struct {
	*governor.Governor
	j   *Journal
	end func()
}

func begin(t *testing.T, opt Options, cfg governor.Config) *life {
	t.Helper()
	j, past, err := Open(opt)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Journal = j
	cfg.Past = past
	cfg.Zone = opt.Zone
	g := testkit.Must(governor.New(cfg))(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = j.Run(ctx, g.Saved)
	}()
	return &life{g, j, func() { cancel(); <-done }}
}

func (l *life) kill() {
	l.end()
	l.j.kill()
}

func (l *life) stop(t *testing.T) {
	t.Helper()
	l.end()
	if err := l.j.Close(l.Saved()); err != nil {
		t.Error(err)
	}
}

func used(l *life, tenant int) []int64 {
	var out []int64
	for _, b := range l.State().Tenants[tenant].Budgets {
		out = append(out, b.Used)
	}
	return out
}

func config() governor.Config {
	day := governor.Budget{Unit: governor.UnitTokens, Limit: 1e9, Per: budget.Day}
	month := governor.Budget{Unit: governor.UnitMicroUSD, Limit: 1e12, Per: budget.Month}
	return governor.Config{
		Pools: []governor.Pool{{Name: "p", TPM: 60_000, RPM: 100, Burst: time.Minute, MaxQueue: 100, Budgets: []governor.Budget{day}}},
		Tenants: []governor.Tenant{
			{Name: "a", Weight: 1, MaxWait: 3 * time.Second, Budgets: []governor.Budget{day, month}},
			{Name: "b", Weight: 2, MaxWait: 3 * time.Second, TPM: 20_000, Budgets: []governor.Budget{day, month}},
		},
	}
}

var price = &governor.Price{Input: 1_000_000, Output: 2_000_000}

// provider counts over exactly the last 60 s.
type provider struct {
	at []time.Time
	n  []*int64
}

func (p *provider) add(n int64) *int64 {
	p.at = append(p.at, time.Now())
	p.n = append(p.n, &n)
	return &n
}

func (p *provider) most() (most int64) {
	first := 0
	sum := int64(0)
	for i, at := range p.at {
		for ; !p.at[first].Add(escrow.Window).After(at); first++ {
			sum -= *p.n[first]
		}
		sum += *p.n[i]
		most = max(most, sum)
	}
	return most
}

// load asks for more than there is, and keeps the books of all who are concerned.
type load struct {
	mu               sync.Mutex
	tokens, requests provider
	own              provider // of tenant b
	budgets          map[string]*[2]int64
}

func (w *load) run(ctx context.Context, g *life, seed uint64) {
	var wg sync.WaitGroup
	for i := range 8 {
		rng := rand.New(rand.NewPCG(seed, uint64(i)))
		tenant := []string{"a", "b"}[i%2]
		wg.Go(func() {
			for ctx.Err() == nil {
				w.call(ctx, g, tenant, rng)
				time.Sleep(time.Duration(1 + rng.IntN(int(600*time.Millisecond))))
			}
		})
	}
	wg.Wait()
}

func (w *load) call(ctx context.Context, g *life, tenant string, rng *rand.Rand) {
	in := int64(rng.IntN(300))
	out := int64(200 + rng.IntN(2000))
	l, rej := g.Acquire(ctx, governor.Request{Tenant: tenant, Pool: "p", Model: fmt.Sprint(rng.IntN(1e9)), Input: in, Output: out, Price: price})
	if rej != nil {
		return
	}
	w.mu.Lock()
	tokens := w.tokens.add(in + out)
	one := w.requests.add(1)
	own := new(int64)
	if tenant == "b" {
		own = w.own.add(in + out)
	}
	b := w.budgets[tenant]
	b[0] += in + out
	b[1] += in + 2*out
	w.mu.Unlock()

	run := time.Duration(rng.Int64N(int64(5 * time.Second)))
	if rng.IntN(40) == 0 {
		run *= 40
	}
	select {
	case <-time.After(run):
	case <-ctx.Done():
		return // it is in flight when the process ends
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if rng.IntN(9) == 0 {
		l.Release()
		*tokens, *one, *own = 0, 0, 0
		b[0] -= in + out
		b[1] -= in + 2*out
		return
	}
	took := rng.Int64N(out + 1)
	l.Settle(governor.Usage{Input: in, Output: took})
	*tokens, *own = in+took, min(*own, in+took)
	b[0] -= out - took
	b[1] -= 2 * (out - took)
}

// A process that is killed at any time, over segments and books that are saved, is
// followed by one that exceeds no limit and knows all budgets to the token.
func TestKilledAtAnyTime(t *testing.T) {
	for seed := range uint64(testkit.Rounds(2, 8)) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 77))
			dir := t.TempDir()
			cfg := config()
			w := &load{budgets: map[string]*[2]int64{"a": {}, "b": {}}}
			for n := range 8 {
				g := begin(t, options(dir), cfg)
				for i, tc := range cfg.Tenants {
					want := w.budgets[tc.Name]
					if got := used(g, i); got[0] != want[0] || got[1] != want[1] || got[2] != want[0] {
						t.Errorf("seed %d, life %d: budgets of %s are %v, want %v and its part of the pool's", seed, n, tc.Name, got, *want)
					}
				}
				ctx, cancel := context.WithCancel(t.Context())
				var wg sync.WaitGroup
				wg.Go(func() { w.run(ctx, g, seed*100+uint64(n)) })
				time.Sleep(time.Duration(rng.Int64N(int64(150 * time.Second))))
				synctest.Wait()
				if n%4 == 3 {
					cancel()
					wg.Wait()
					g.stop(t)
				} else {
					g.kill()
					cancel()
					wg.Wait()
				}
			}
			if most := w.tokens.most(); most > cfg.Pools[0].TPM {
				t.Errorf("seed %d: %d tokens in 60 s", seed, most)
			}
			if most := w.requests.most(); most > cfg.Pools[0].RPM {
				t.Errorf("seed %d: %d requests in 60 s", seed, most)
			}
			if most := w.own.most(); most > cfg.Tenants[1].TPM {
				t.Errorf("seed %d: %d own tokens in 60 s", seed, most)
			}
		})
	}
}

// Segments go when nothing in them counts any more, but a call that runs for long is
// known all the time.
func TestRotation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		cfg := config()
		cfg.Pools[0].Accounting = escrow.Settled
		g := begin(t, options(dir), cfg)
		long, rej := governor.Refused(g.Acquire(t.Context(), governor.Request{Tenant: "a", Pool: "p", Output: 900}))
		if rej != nil {
			t.Fatal(rej)
		}
		long.Progress(700)
		long.Progress(1100) // more than it was booked at
		for range 50 {
			if l, rej := g.Acquire(t.Context(), governor.Request{Tenant: "b", Pool: "p", Output: 100}); rej == nil {
				time.Sleep(5 * time.Second)
				l.Settle(governor.Usage{Output: 10})
			}
			time.Sleep(5 * time.Second)
			if list, _ := segments(dir); len(list) > 4 {
				t.Fatalf("%d segments", len(list))
			}
		}
		g.kill()
		next := begin(t, options(dir), cfg)
		tokens := next.State().Pools[0].Axes[0].Used
		if tokens < 1100+50 || tokens > 1650+100 {
			t.Errorf("the minute counts %d, want the 1100 of the long call and what of the others was in it", tokens)
		}
		if got := used(next, 0); got[0] != 900 {
			t.Errorf("the long call stands in its budget with %v, want what it held", got)
		}
		if got := used(next, 1); got[0] != 500 {
			t.Errorf("the others stand in their budget with %v", got)
		}
		if long.Settle(governor.Usage{Output: 1}); used(next, 0)[0] != 900 {
			t.Error("a dead process ends a call")
		}
		next.stop(t)
	})
}

// A process that is started again and again does not fill the folder.
func TestRestartLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		cfg := config()
		for n := range 60 {
			g := begin(t, options(dir), cfg)
			if got := used(g, 0); got[0] != int64(n) {
				t.Fatalf("life %d: the budget counts %v", n, got)
			}
			l, rej := governor.Refused(g.Acquire(t.Context(), governor.Request{Tenant: "a", Pool: "p", Output: 1}))
			if rej != nil {
				t.Fatal(rej)
			}
			if n%2 == 0 {
				l.Settle(governor.Usage{Output: 1})
			}
			time.Sleep(10 * time.Second)
			g.kill()
		}
		if list, _ := segments(dir); len(list) > 15 {
			t.Errorf("%d segments are kept of the last two minutes", len(list))
		}
	})
}

// Who has let its share pass has let it pass after a restart, too.
func TestSharesOutliveAKill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		cfg := config()
		cfg.Pools = []governor.Pool{{Name: "p", Concurrency: 10, MaxQueue: 10, Budgets: []governor.Budget{{Unit: governor.UnitRequests, Limit: 1200, Per: budget.Hour}}}}
		room := func(g *life, tenant string) (n int) {
			for ; ; n++ {
				l, rej := g.Acquire(t.Context(), governor.Request{Tenant: tenant, Pool: "p", Output: 1})
				if rej != nil {
					return n
				}
				l.Settle(governor.Usage{Output: 1})
			}
		}
		g := begin(t, options(dir), cfg)
		room(g, "a") // its 400
		time.Sleep(30 * time.Minute)
		first := room(g, "a") // and half of what b let pass
		time.Sleep(2 * time.Minute)
		g.kill()
		g = begin(t, options(dir), cfg)
		if n := room(g, "a"); n < 20 || n > 40 {
			t.Errorf("of what b let pass in two minutes a gets %d, want 1/30 of 800", n)
		}
		if n := room(g, "b"); n+first < 730 || n+first > 800 {
			t.Errorf("b gets %d after a got %d of its 800 at half time", n, first)
		}
		g.kill()
	})
}

// TestLimitsOutliveAKill: an adaptive limit goes on where it was saved last, also if the next process is killed before it
// saves anything.
func TestLimitsOutliveAKill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		cfg := config()
		cfg.Pools = []governor.Pool{{Name: "p", Concurrency: 100, MinConcurrency: 4, Adaptive: adaptive.Gradient, MaxQueue: 100}}
		g := begin(t, options(dir), cfg)
		testkit.AtOnce(20, func(_ int) {
			for range 50 {
				l, rej := g.Acquire(t.Context(), governor.Request{Tenant: "a", Pool: "p", Model: "m", Stream: true, Output: 1})
				if rej != nil {
					continue
				}
				time.Sleep(100 * time.Millisecond)
				l.Progress(1)
				time.Sleep(time.Second)
				l.Settle(governor.Usage{Output: 1})
			}
		})
		time.Sleep(time.Minute)
		found := g.State().Pools[0].Slots
		if found < 10 {
			t.Fatalf("20 calls ran at a limit of %d", found)
		}
		g.kill()
		for n := range 2 {
			next := begin(t, options(dir), cfg)
			if got := next.State().Pools[0].Slots; got != found {
				t.Errorf("life %d begins with a limit of %d, want %d", n+2, got, found)
			}
			next.kill()
		}
	})
}

// A clean end loses nothing either, and a folder may be used with another policy.
func TestCleanEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		cfg := config()
		g := begin(t, options(dir), cfg)
		for range 3 {
			l, rej := governor.Refused(g.Acquire(t.Context(), governor.Request{Tenant: "a", Pool: "p", Input: 100, Output: 200, Price: price}))
			if rej != nil {
				t.Fatal(rej)
			}
			l.Settle(governor.Usage{Input: 100, Output: 150})
		}
		g.stop(t)
		if err := g.j.Append(record.Record{Kind: record.Admitted}); err == nil {
			t.Error("a closed journal takes a record")
		}
		for range 3 {
			cfg.Tenants[0].Budgets = append(cfg.Tenants[0].Budgets, governor.Budget{Unit: governor.UnitRequests, Limit: 10, Per: budget.Life})
			cfg.Tenants[1].Name = "new"
			g = begin(t, options(dir), cfg)
			if got := used(g, 0); got[0] != 750 || got[1] != 3*400 || got[2] != 3 {
				t.Errorf("budgets %v, want 750 tokens, 1200 µ$, and 3 requests in a budget that is new", got)
			}
			if n := g.State().Pools[0].Axes[0].Used; n != 750 {
				t.Errorf("the minute counts %d", n)
			}
			g.stop(t)
			cfg.Tenants[0].Budgets = cfg.Tenants[0].Budgets[:2]
		}
		// After a clean end the books alone know the budgets.
		g = begin(t, options(dir), cfg)
		l, rej := governor.Refused(g.Acquire(t.Context(), governor.Request{Tenant: "a", Pool: "p", Input: 100, Output: 200, Price: price}))
		if rej != nil {
			t.Fatal(rej)
		}
		l.Settle(governor.Usage{Input: 100, Output: 150})
		g.stop(t)
		list, err := segments(dir)
		if err != nil || len(list) == 0 {
			t.Error(list, err)
		}
		for _, n := range list {
			if err := os.Remove(segmentPath(dir, n)); err != nil {
				t.Error(err)
			}
		}
		g = begin(t, options(dir), cfg)
		if got := used(g, 0); got[0] != 1000 || got[1] != 1600 {
			t.Errorf("without segments the budgets are %v", got)
		}
		g.stop(t)
		time.Sleep(24 * time.Hour)
		g = begin(t, options(dir), cfg)
		if got := used(g, 0); got[0] != 0 || got[1] != 1600 {
			t.Errorf("a day later the budgets are %v", got)
		}
		g.stop(t)
		time.Sleep(400 * 24 * time.Hour)
		cfg.Tenants[0].Budgets = append(cfg.Tenants[0].Budgets, governor.Budget{Unit: governor.UnitRequests, Limit: 10, Per: budget.Life})
		g = begin(t, options(dir), cfg)
		if got := used(g, 0); got[0] != 0 || got[1] != 0 || got[2] != 4 {
			t.Errorf("a year later the budgets are %v, want 4 requests of that for life", got)
		}
		g.stop(t)
	})
}

func TestOneProcessAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		g := begin(t, options(dir), config())
		defer g.stop(t)
		_, _, err := Open(options(dir))
		if want := "durable: state_dir " + dir + " is in use by another process: stop that one, or give this one a folder of its own"; err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	})
}

// What cannot be read is said, with the file, the place and what to do.
func TestDamage(t *testing.T) {
	dir := t.TempDir()
	g := begin(t, options(dir), config())
	for range 9 {
		l, _ := g.Acquire(t.Context(), governor.Request{Tenant: "a", Pool: "p", Output: 1})
		l.Settle(governor.Usage{})
	}
	g.kill()
	path := segmentPath(dir, 1)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	whole := b[len(header)+100]
	b[len(header)+100]++
	testkit.OK(t, os.WriteFile(path, b, 0o600))
	_, _, err = Open(options(dir))
	if err == nil || !strings.Contains(err.Error(), path+" is damaged at byte ") || !strings.Contains(err.Error(), "move it away") {
		t.Errorf("got %v", err)
	}
	b[len(header)+100] = whole
	if err := os.WriteFile(path, b[:len(b)-5], 0o600); err != nil { // the last one was cut short
		t.Fatal(err)
	}
	for range 3 { // and then it is at the end of the journal no more
		begin(t, options(dir), config()).kill()
	}
	list, _ := segments(dir)
	for _, text := range []string{"", "\x00\x00", strings.Repeat("\x00", 4096)} { // after a loss of power
		testkit.OK(t, os.WriteFile(segmentPath(dir, list[len(list)-1]), []byte(text), 0o600))
		begin(t, options(dir), config()).kill()
	}
	books := testkit.Must(os.ReadFile(filepath.Join(dir, "books.db")))(t)
	clear(books[8192:]) // all but its first pages
	for want, b := range map[string][]byte{" is damaged: ": books, " is missing or empty, ": nil} {
		other := t.TempDir()
		for path, b := range map[string][]byte{filepath.Join(other, "books.db"): b, segmentPath(other, 7): []byte(header)} {
			testkit.OK(t, os.WriteFile(path, b, 0o600))
		}
		if _, _, err := Open(options(other)); err == nil || !strings.Contains(err.Error(), "books.db"+want) || !strings.Contains(err.Error(), "move it away") {
			t.Errorf("want books.db%s, got %v", want, err)
		}
	}
	testkit.OK(t, os.WriteFile(filepath.Join(dir, "books.db"), []byte("not a database, and longer than a page? no"), 0o600))
	if _, _, err := Open(options(dir)); err == nil || !strings.Contains(err.Error(), "books.db") {
		t.Errorf("got %v", err)
	}
}

// disk is a disk that may be full, and what is said about it.
type disk struct {
	mu   sync.Mutex
	room int   // bytes; -1 is no end
	mend error // of a file that is to be cut off
	said strings.Builder
}

func (d *disk) set(room int, mend error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.room = room
	d.mend = mend
}

// Write is for the log.
func (d *disk) Write(b []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.said.Write(b)
}

func (d *disk) text() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.said.String()
}

type onDisk struct {
	*os.File
	d *disk
}

func (f onDisk) Write(b []byte) (int, error) {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if f.d.room < 0 {
		return f.File.Write(b)
	}
	n, err := f.File.Write(b[:min(len(b), f.d.room)])
	f.d.room -= n
	if err == nil && n < len(b) {
		err = syscall.ENOSPC
	}
	return n, err
}

func (f onDisk) Truncate(size int64) error {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if f.d.mend != nil {
		return f.d.mend
	}
	return f.File.Truncate(size)
}

// On a full disk nobody is admitted, nothing is held, it is said once, and what
// stands in the journal stays good; when there is room again all goes on.
func TestDiskFull(t *testing.T) {
	for room := 0; room < 90; room += testkit.Rounds(7, 1) {
		synctest.Test(t, func(t *testing.T) {
			d := &disk{room: -1}
			opt := options(t.TempDir())
			opt.Log = slog.New(slog.NewTextHandler(d, nil))
			opt.create = func(path string) (file, error) {
				f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY|os.O_APPEND, 0o600)
				return onDisk{f, d}, err
			}
			g := begin(t, opt, config())
			req := governor.Request{Tenant: "a", Pool: "p", Output: 100}
			before, rej := governor.Refused(g.Acquire(t.Context(), req))
			if rej != nil {
				t.Fatal(rej)
			}
			d.set(room, nil)
			if room%2 == 0 {
				d.set(room, errors.New("the disk has other problems, too"))
			}
			admitted := 0
			for range 5 {
				l, rej := governor.Refused(g.Acquire(t.Context(), req))
				if rej == nil {
					admitted++
					l.Release()
				} else if rej.Reason != governor.ReasonStore {
					t.Fatalf("with %d bytes of room: %+v", room, rej)
				}
			}
			if running, waiting := g.Leases(); running != 1 || waiting != 0 || g.j.Up() {
				t.Errorf("%d run and %d wait, up %v", running, waiting, g.j.Up())
			}
			if got, pool := used(g, 0), g.State().Pools[0].Axes[0].Used; got[0] != 100 || pool != 100 {
				t.Errorf("what was refused is in the books: %v, %d", got, pool)
			}
			before.Settle(governor.Usage{Output: 60}) // nobody can keep that now
			time.Sleep(70 * time.Second)              // a new segment cannot be written either
			if n := strings.Count(d.text(), "no calls are admitted"); n != 1 {
				t.Errorf("said %d times:\n%s", n, d.text())
			}

			d.set(-1, nil)
			l, rej := governor.Refused(g.Acquire(t.Context(), req))
			if rej != nil || !g.j.Up() {
				t.Fatalf("with room again: %v", rej)
			}
			l.Settle(governor.Usage{Output: 30})
			// Of calls that ended on the full disk only the beginning is known, until the
			// books are saved.
			want := int64(130 + 100*admitted)
			if room%3 == 0 {
				time.Sleep(70 * time.Second)
				want = 90
			}
			g.kill()
			g = begin(t, options(opt.Dir), config())
			if got := used(g, 0); got[0] != want || admitted > 1 {
				t.Errorf("after %d bytes of room and %d calls the budget counts %v, want %d", room, admitted, got, want)
			}
			g.kill()
		})
	}
}
