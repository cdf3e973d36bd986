package remote_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/governor/client"
	"github.com/llmgov/llmgov/governor/client/doors"
	"github.com/llmgov/llmgov/governor/govhttp"
	"github.com/llmgov/llmgov/governor/remote"
	"github.com/llmgov/llmgov/internal/doors/admissionserver"
	"github.com/llmgov/llmgov/internal/doors/inprocess"
	"github.com/llmgov/llmgov/internal/doors/reserve"
	"github.com/llmgov/llmgov/internal/doors/reserveserver"
	"github.com/llmgov/llmgov/internal/ops/telemetry"
	"github.com/llmgov/llmgov/internal/run/admission"
	"github.com/llmgov/llmgov/internal/run/policy"
	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/internal/test/testkit/pipenet"
	"github.com/llmgov/llmgov/tenants"
)

const token = "a-token-of-sixteen-characters"

// TestMain starts an llmgov for examples, in which acme may make one call a minute.
func TestMain(m *testing.M) {
	at, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	var w world
	if err := w.serve(at, func(_ *tenants.Pool, acme *tenants.Tenant) { acme.RPM = 1 }); err != nil {
		panic(err)
	}
	_ = os.Setenv("LLMGOV_ADMISSION", at.Addr().String())
	_ = os.Setenv("ADMISSION_TOKEN", token)
	m.Run()
}

// asked holds 100 tokens.
var asked = client.Request{ID: "req-1", Tenant: "acme", Model: "m", InputTokens: 60, MaxOutput: 40}

func answer(context.Context, *client.Lease) (client.Usage, error) {
	return client.Usage{Input: 50, Output: 5}, nil
}

// world is an llmgov whose admission listener is in memory.
type world struct {
	gov    *governor.Governor
	inside *client.Client // by the door of a program that has the governor inside it
	book   *reserve.Book
	*pipenet.Listener
	server *admissionserver.Server

	mu    sync.Mutex
	conns []net.Conn    // guarded by mu: of clients
	dead  bool          // guarded by mu: cannot be reached
	still chan struct{} // guarded by mu: closed when it runs again; nil while it runs
}

// Accept makes the world the listener of its server, which can be stopped as a process is.
func (w *world) Accept() (net.Conn, error) {
	c, err := w.Listener.Accept()
	return stopped{c, w}, err
}

type stopped struct {
	net.Conn
	w *world
}

func (c stopped) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.w.goOn()
	return n, err
}

func (c stopped) Write(b []byte) (int, error) {
	c.w.goOn()
	return c.Conn.Write(b)
}

// goOn waits until the server runs.
func (w *world) goOn() {
	w.mu.Lock()
	still := w.still
	w.mu.Unlock()
	if still != nil {
		<-still
	}
}

// freeze stops the server as SIGSTOP does: its connections are open, also new ones, and nothing comes of them.
func (w *world) freeze() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.still = make(chan struct{})
}

func (w *world) thaw() {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.still)
	w.still = nil
}

// kill ends the server as SIGKILL does: it forgets all.
func (w *world) kill() {
	w.cut(true)
	w.book.Close()
	w.server.Close()
}

func newWorld(t *testing.T, change func(*tenants.Pool, *tenants.Tenant)) *world {
	t.Helper()
	w := &world{Listener: pipenet.Listen()}
	testkit.OK(t, w.serve(w, change))
	return w
}

// serve serves at a listener.
func (w *world) serve(at net.Listener, change func(*tenants.Pool, *tenants.Tenant)) error {
	cfg := tenants.DefaultConfig()
	cfg.Upstreams = []tenants.Upstream{{Name: "up", BaseURL: "https://example.com/v1"}}
	pool := tenants.DefaultPool("p")
	pool.Models = []string{"m"}
	pool.TPM = 600_000
	acme := tenants.Tenant{Name: "acme", Routes: tenants.RouteInference, Keys: []tenants.Key{{Hash: tenants.HashKey("sk-acme")}}}
	if change != nil {
		change(&pool, &acme)
	}
	cfg.Pools = []tenants.Pool{pool}
	snap, err := tenants.Build(cfg, []tenants.Tenant{acme})
	if err != nil {
		return err
	}
	w.gov, err = governor.New(policy.Governor(snap))
	if err != nil {
		return err
	}
	door := inprocess.New(admission.New(admission.Options{Snapshot: snap, Governor: w.gov, Metrics: telemetry.New()}))
	w.inside = doors.Open(door, doors.Options{Log: slog.New(slog.DiscardHandler), MaxHold: maxHold})
	tenantOf := func(key string) (string, bool) { return "acme", key == "sk-acme" }
	w.book = reserve.New(reserve.Options{Door: door, Tenant: tenantOf, Most: 1000})
	handler := admissionserver.New(admissionserver.Options{Token: token, Tenant: tenantOf, Log: slog.New(slog.DiscardHandler)})
	reserveserver.Register(handler, w.book)
	go func() { _ = handler.Serve(at) }()
	w.server = handler
	return nil
}

// close ends everything, and fails if something is held.
func (w *world) close(t *testing.T) {
	if running, waiting := w.gov.Leases(); running+waiting+w.book.Open() != 0 {
		t.Errorf("%d run, %d wait, %d reservations", running, waiting, w.book.Open())
	}
	w.book.Close()
	w.server.Close()
}

// dial returns a client of the world.
func (w *world) dial(t *testing.T, opt remote.Options) *client.Client {
	t.Helper()
	opt.Token = token
	opt.Connection = append(opt.Connection, grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.dead {
			return nil, errors.New("no route to host")
		}
		c, err := w.Listener.Dial(ctx, "", "")
		w.conns = append(w.conns, c)
		return c, err
	}))
	return testkit.Must(remote.Dial("passthrough:///llmgov:9091", opt))(t)
}

// cut cuts all connections; if for good, no other can be made.
func (w *world) cut(forGood bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dead = forGood
	for _, c := range w.conns {
		_ = c.Close()
	}
	w.conns = nil
}

// join has an llmgov that was cut off back.
func (w *world) join() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dead = false
}

func (w *world) used() int64 {
	st := w.gov.Standing("acme", "p")
	return st.Tokens.Limit - st.Tokens.Remaining
}

func refused(err error) *client.Refusal {
	r, ok := errors.AsType[*client.Refusal](err)
	if !ok {
		return &client.Refusal{}
	}
	return r
}

// A program that moves from a governor inside it to a shared one sees the same: what is charged, refused and shown.
func TestDial_SameAsInside(t *testing.T) {
	broken := errors.New("broken")
	for _, c := range []struct {
		name string
		fn   func(context.Context, *client.Lease) (client.Usage, error)
		want int64
	}{
		{"reported", answer, 55},
		{"broken, known", func(context.Context, *client.Lease) (client.Usage, error) {
			return client.Usage{Input: 50, Output: 5}, broken
		}, 55},
		{"broken, counted", func(_ context.Context, l *client.Lease) (client.Usage, error) {
			l.Progress(7)
			return client.Usage{}, broken
		}, 67},
		{"broken, its prompt known", func(_ context.Context, l *client.Lease) (client.Usage, error) {
			l.ProgressDeltas(7)
			return client.Usage{}, l.End(client.End{Outcome: client.Failed, Usage: client.Usage{Input: 50, CachedInput: 40}})
		}, 57},
		{"broken, unknown", func(context.Context, *client.Lease) (client.Usage, error) { return client.Usage{}, broken }, 100},
		{"cannot be", func(context.Context, *client.Lease) (client.Usage, error) {
			return client.Usage{Input: -5, Output: 5}, nil
		}, 100},
		{"cannot be told", func(context.Context, *client.Lease) (client.Usage, error) {
			return client.Usage{Input: 50, Output: 5, Tier: "\xff"}, nil
		}, 100},
		{"cannot be, counted", func(_ context.Context, l *client.Lease) (client.Usage, error) {
			l.Progress(-3)
			l.Progress(7)
			return client.Usage{Input: 1 << 62}, broken
		}, 67},
		{"panicked", func(context.Context, *client.Lease) (client.Usage, error) { panic("no") }, 100},
		{"not sent", func(context.Context, *client.Lease) (client.Usage, error) { return client.Usage{}, client.ErrNotSent }, 0},
		{"answered error", func(context.Context, *client.Lease) (client.Usage, error) {
			return client.Usage{}, client.ErrAnsweredError
		}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			both(t, func(t *testing.T, w *world, governed *client.Client) {
				func() {
					defer func() { _ = recover() }()
					_ = governed.Do(t.Context(), asked, c.fn)
				}()
				if got := w.used(); got != c.want {
					t.Errorf("charged %d tokens, %d is right", got, c.want)
				}
			}, nil)
		})
	}
	t.Run("held", func(t *testing.T) {
		body := []byte(`{"model": "m", "messages": [{"role": "user", "content": "` + strings.Repeat("word ", 2000) + `"}]}`)
		for name, ask := range map[string]client.Request{"by its body": {Body: body}, "by nothing": {}} {
			both(t, func(t *testing.T, w *world, governed *client.Client) {
				ask.Tenant = "acme"
				ask.Model = "m"
				ask.NoOutput = true
				l, err := governed.Reserve(t.Context(), ask)
				if err != nil {
					t.Fatal(err)
				}
				if n := w.used(); n < 1500 || n > 5000 {
					t.Errorf("%s: %d tokens are held", name, n)
				}
				l.Close()
			}, func(p *tenants.Pool, _ *tenants.Tenant) { p.DefaultMaxOutput = 3000 })
		}
	})
	t.Run("overloaded", func(t *testing.T) {
		both(t, func(t *testing.T, w *world, governed *client.Client) {
			_ = governed.Do(t.Context(), asked, func(context.Context, *client.Lease) (client.Usage, error) {
				return client.Usage{}, client.AnsweredStatus(503)
			})
			if may := w.gov.Standing("acme", "p").Concurrent.Limit; may != 1 {
				t.Errorf("after a 503 the tenant may run %d calls, want 1", may)
			}
		}, func(p *tenants.Pool, _ *tenants.Tenant) {
			p.Concurrency = 8
			p.PerTenant = true
		})
	})
	t.Run("refused", func(t *testing.T) {
		both(t, func(t *testing.T, _ *world, governed *client.Client) {
			lease := testkit.Must(governed.Reserve(t.Context(), asked))(t)
			h := http.Header{}
			lease.Show(h)
			lease.Close()
			if g := lease.Grant; g.ID != "req-1" || g.Tenant != "acme" || g.Pool != "p" || g.MaxOutput != 30 || h.Get("X-Ratelimit-Limit-Requests") != "1" || h.Get("X-Request-Id") != "req-1" {
				t.Errorf("granted %+v, shown %v", g, h)
			}
			r := refused(governed.Do(t.Context(), asked, answer))
			if r.ID != "req-1" || r.Status != 429 || r.Code != "rate_limit_exceeded" || r.Kind != "requests" || r.RetryAfter <= 0 || r.Header.Get("Retry-After") == "" || r.Header.Get("X-Ratelimit-Remaining-Requests") != "0" || r.Header.Get("X-Request-Id") != "req-1" {
				t.Errorf("refused %+v", r)
			}
		}, func(_ *tenants.Pool, acme *tenants.Tenant) {
			acme.RPM = 1
			acme.MaxOutputTokens = 30
		})
	})
	t.Run("too late", func(t *testing.T) {
		both(t, func(t *testing.T, w *world, governed *client.Client) {
			never := func(context.Context, *client.Lease) (client.Usage, error) {
				t.Error("it ran")
				return client.Usage{}, nil
			}
			gone, leave := context.WithCancel(t.Context())
			leave()
			if err := governed.Do(gone, asked, never); !errors.Is(err, context.Canceled) {
				t.Errorf("cancelled before: %v", err)
			}
			late, leave := context.WithDeadline(t.Context(), time.Now().Add(-time.Hour))
			defer leave()
			if err := governed.Do(late, asked, never); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("late before: %v", err)
			}
		}, nil)
	})
	t.Run("waits", func(t *testing.T) {
		both(t, func(t *testing.T, _ *world, governed *client.Client) {
			first := testkit.Must(governed.Reserve(t.Context(), asked))(t)
			time.AfterFunc(3*time.Second, first.Close)
			hurried := asked
			hurried.MaxWait = new(time.Duration(0))
			if r := refused(governed.Do(t.Context(), hurried, answer)); r.Kind != "concurrency" {
				t.Errorf("who does not wait: %+v", r)
			}
			ctx, leave := context.WithCancel(t.Context())
			time.AfterFunc(time.Second, leave)
			if err := governed.Do(ctx, asked, answer); !errors.Is(err, context.Canceled) {
				t.Errorf("who leaves: %v", err)
			}
			second, err := governed.Reserve(t.Context(), asked)
			if err != nil || second.Grant.Waited < time.Second || second.Grant.Waited > 3*time.Second {
				t.Fatalf("who waits: %+v, %v", second, err)
			}
			second.Close()
		}, func(p *tenants.Pool, acme *tenants.Tenant) {
			p.Concurrency = 1
			acme.MaxWait = time.Minute
		})
	})
	t.Run("a deadline before its turn", func(t *testing.T) {
		both(t, func(t *testing.T, _ *world, governed *client.Client) {
			testkit.OK(t, governed.Do(t.Context(), asked, answer))
			begun := time.Now()
			ctx, leave := context.WithTimeout(t.Context(), 20*time.Second)
			defer leave()
			if r := refused(governed.Do(ctx, asked, answer)); r.Kind != "requests" || r.RetryAfter < 20*time.Second || time.Since(begun) > time.Second {
				t.Errorf("told after %s: %+v", time.Since(begun), r)
			}
			late, leave := context.WithTimeout(t.Context(), 90*time.Second)
			defer leave()
			testkit.OK(t, governed.Do(late, asked, answer))
		}, func(_ *tenants.Pool, acme *tenants.Tenant) {
			acme.RPM = 1
			acme.MaxWait = 2 * time.Minute
		})
	})
	t.Run("who goes by refusals", func(t *testing.T) {
		for name, spoil := range map[string]func(*client.Request){
			"unknown tenant": func(r *client.Request) { r.Tenant = "acne" },
			"no tenant":      func(r *client.Request) { r.Tenant = "" },
			"unknown key":    func(r *client.Request) { r.Tenant = ""; r.Key = "sk-none" },
			"unknown model":  func(r *client.Request) { r.Model = "n" },
			"unknown pool":   func(r *client.Request) { r.Pool = "q" },
			"stands in":      func(r *client.Request) { r.Instead = []string{"n"} },
			"wrong":          func(r *client.Request) { r.MaxWait = new(-time.Second) },
			"too many":       func(*client.Request) {},
		} {
			both(t, func(t *testing.T, _ *world, governed *client.Client) {
				testkit.OK(t, governed.Do(t.Context(), asked, answer))
				req := asked
				spoil(&req)
				tries := 0
				for begun := time.Now(); time.Since(begun) < 30*time.Second && tries < 100; tries++ {
					err := governed.Do(t.Context(), req, answer)
					r := refused(err)
					if !errors.Is(err, client.ErrRefused) || r.Code == "" || strings.Contains(r.Message, "ateway") || strings.Contains(r.Message, "GET /") || r.Message != strings.TrimSpace(r.Message) {
						t.Fatalf("%s: %v", name, err)
					}
					if r.Final {
						break
					}
					time.Sleep(r.RetryAfter)
				}
				if tries > 2 {
					t.Errorf("%s: %d tries", name, tries)
				}
			}, func(_ *tenants.Pool, acme *tenants.Tenant) { acme.RPM = 1 })
		}
	})
	t.Run("forgotten", func(t *testing.T) {
		both(t, func(t *testing.T, w *world, governed *client.Client) {
			func() {
				l := testkit.Must(governed.Reserve(t.Context(), asked))(t)
				l.Context()
				l.Progress(7)
			}()
			for range 200 { // what is found is ended a little later
				if governed.Forgotten() > 0 {
					break
				}
				runtime.GC()
				time.Sleep(time.Second)
			}
			synctest.Wait()
			if running, _ := w.gov.Leases(); running > 0 || governed.Forgotten() != 1 {
				t.Errorf("%d run, %d were found", running, governed.Forgotten())
			}
		}, nil)
	})
	t.Run("held for too long", func(t *testing.T) {
		both(t, func(t *testing.T, w *world, governed *client.Client) {
			l := testkit.Must(governed.Reserve(t.Context(), asked))(t)
			time.Sleep(maxHold - time.Second)
			if running, _ := w.gov.Leases(); running != 1 || l.Context().Err() != nil {
				t.Errorf("%d run: %v", running, context.Cause(l.Context()))
			}
			time.Sleep(2 * time.Second)
			if r := l.Interrupted(); r == nil || r.Code != client.CodeExpired || governed.Forgotten() != 1 {
				t.Errorf("its context: %v; %d were found", context.Cause(l.Context()), governed.Forgotten())
			}
			if running, _ := w.gov.Leases(); running > 0 {
				t.Errorf("%d run", running)
			}
			l.Close()
		}, nil)
	})
	t.Run("interrupted", func(t *testing.T) {
		both(t, func(t *testing.T, w *world, governed *client.Client) {
			err := governed.Do(t.Context(), asked, func(ctx context.Context, _ *client.Lease) (client.Usage, error) {
				w.gov.Interrupt("p", errors.New("a slot was lost"))
				<-ctx.Done()
				return client.Usage{}, ctx.Err()
			})
			if r := refused(err); r.Status != http.StatusServiceUnavailable || r.Message == "" {
				t.Errorf("%v", err)
			}
		}, nil)
	})
}

// maxHold is for how long programs may hold a lease.
const maxHold = 30 * time.Minute

// both runs a program with a governor inside it and with a shared one, in virtual time.
func both(t *testing.T, program func(*testing.T, *world, *client.Client), change func(*tenants.Pool, *tenants.Tenant)) {
	t.Helper()
	for _, where := range []string{"inside", "shared"} {
		testkit.Virtual(t, where, func(t *testing.T) {
			w := newWorld(t, change)
			defer w.close(t)
			governed := w.inside
			if where == "shared" {
				governed = w.dial(t, remote.Options{Log: slog.New(slog.DiscardHandler), MaxHold: maxHold})
			}
			program(t, w, governed)
			synctest.Wait()
			if err := governed.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// A call may be silent for longer than its ttl as long as its program lives. When that dies, llmgov ends the call.
func TestDial_Dies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(_ *tenants.Pool, acme *tenants.Tenant) {
			acme.Budgets = []tenants.Budget{{Unit: tenants.Tokens, Limit: 1e9, Per: tenants.Month}}
		})
		defer w.close(t)
		charged := func() int64 {
			st, _ := w.gov.TenantState("acme")
			return st.Budgets[0].Used
		}
		governed := w.dial(t, remote.Options{TTL: 10 * time.Second})
		lease := testkit.Must(governed.Reserve(t.Context(), asked))(t)
		time.Sleep(5 * time.Minute)
		if w.book.Open() != 1 {
			t.Fatal("the reservation of a silent call has expired")
		}
		w.cut(false) // a connection is lost, and another one is made
		time.Sleep(time.Minute)
		if w.book.Open() != 1 {
			t.Fatal("the reservation has expired with its connection")
		}
		w.cut(true)
		time.Sleep(11 * time.Second)
		if w.book.Open() != 0 {
			t.Error("the reservation of a program that has died is open")
		}
		if got := charged(); got != 100 {
			t.Errorf("charged %d tokens, %d is right", got, 100)
		}
		w.join()
		lease.End(client.End{Usage: client.Usage{Input: 90, Output: 80}, Reported: true}) // it was only cut off
		time.Sleep(20 * time.Second)
		if got := charged(); got != 170 {
			t.Errorf("charged %d tokens after the late end, %d is right", got, 170)
		}
		if err := governed.Close(); err != nil {
			t.Error(err)
		}
	})
}

// A shutdown waits for calls in flight as long as it may, and tells of their ends; calls that wait are refused.
func TestShutdown(t *testing.T) {
	for _, ends := range []time.Duration{0, 3 * time.Second, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, func(p *tenants.Pool, acme *tenants.Tenant) {
				p.Concurrency = 1
				acme.MaxWait = time.Hour
			})
			defer w.close(t)
			governed := w.dial(t, remote.Options{Log: slog.New(slog.DiscardHandler)})
			lease := testkit.Must(governed.Reserve(t.Context(), asked))(t)
			waits := make(chan error, 1)
			go func() { waits <- governed.Do(t.Context(), asked, answer) }()
			over := lease.Context()
			done := make(chan struct{})
			go func() {
				defer close(done)
				select {
				case <-time.After(ends):
				case <-over.Done():
				}
				_ = lease.End(client.End{Reported: true, Usage: client.Usage{Input: 9, Output: 1}})
				lease.Close()
			}()
			time.Sleep(time.Millisecond)
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			begun := time.Now()
			err := governed.Shutdown(ctx)
			if late := ends > 10*time.Second; errors.Is(err, context.DeadlineExceeded) != late || !late && err != nil {
				t.Errorf("calls end after %s: %v", ends, err)
			}
			if r, _ := context.Cause(over).(*client.Refusal); (r != nil && r.Code == client.CodeClosed) != (ends > 10*time.Second) {
				t.Errorf("calls end after %s: the context ends by %v", ends, context.Cause(over))
			}
			if took := time.Since(begun); took > min(ends, 10*time.Second)+1100*time.Millisecond {
				t.Errorf("calls end after %s: it took %s", ends, took)
			}
			if err := <-waits; ends > 0 && !errors.Is(err, client.ErrClosed) {
				t.Errorf("a call that waits: %v", err)
			}
			<-done
			testkit.OK(t, governed.Close())
			if _, err := governed.Reserve(t.Context(), asked); !errors.Is(err, client.ErrClosed) {
				t.Errorf("a call that comes: %v", err)
			}
		})
	}
}

// A shutdown waits also for calls that ask: a reservation that was made although its call is refused is given back.
func TestShutdown_WhileCallsAsk(t *testing.T) {
	for _, answer := range []error{nil, status.Error(codes.Unavailable, "the answer was lost")} {
		for _, patience := range []time.Duration{0, 10 * time.Second} {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, nil)
				defer w.close(t)
				governed := w.dial(t, remote.Options{Open: true, Log: slog.New(slog.DiscardHandler), Connection: []grpc.DialOption{
					grpc.WithUnaryInterceptor(func(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
						err := invoke(ctx, method, req, reply, conn, opts...)
						if strings.HasSuffix(method, "/Reserve") {
							time.Sleep(time.Second)
							err = answer
						}
						return err
					}),
				}})
				asks := make(chan error, 1)
				go func() {
					_, err := governed.Reserve(t.Context(), asked)
					asks <- err
				}()
				time.Sleep(500 * time.Millisecond)
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				if err := governed.Shutdown(ctx); (err != nil) != (patience == 0) {
					t.Errorf("answer %v, patience %s: %v", answer, patience, err)
				}
				if n := w.book.Open(); n > 0 {
					t.Errorf("answer %v, patience %s: %d reservations are open", answer, patience, n)
				}
				if err := <-asks; !errors.Is(err, client.ErrClosed) {
					t.Errorf("answer %v, patience %s: a call: %v", answer, patience, err)
				}
				time.Sleep(time.Hour) // whatever is left expires
			})
		}
	}
}

// After a shutdown that did not wait, nothing is sent any more, and an end that nobody heard of is logged.
func TestShutdown_LeasesLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		defer w.close(t)
		var log bytes.Buffer
		var sent atomic.Int64
		governed := w.dial(t, remote.Options{Log: slog.New(slog.NewTextHandler(&log, nil)), Connection: []grpc.DialOption{
			grpc.WithUnaryInterceptor(func(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
				sent.Add(1)
				return invoke(ctx, method, req, reply, conn, opts...)
			}),
		}})
		var left []*client.Lease
		for _, id := range []string{"req-1", "req-2"} {
			req := asked
			req.ID = id
			l := testkit.Must(governed.Reserve(t.Context(), req))(t)
			l.Context()
			left = append(left, l)
		}
		testkit.OK(t, governed.Close())
		before := sent.Load()
		time.Sleep(10 * time.Minute)
		left[0].Progress(5)
		time.Sleep(10 * time.Minute)
		if n := sent.Load() - before; n > 0 {
			t.Errorf("%d signs of life were sent", n)
		}
		for i, id := range []string{"req-1", "req-2"} {
			if r := left[i].Interrupted(); r == nil || r.Code != client.CodeClosed || r.ID != id {
				t.Errorf("%s was ended by %+v", id, r)
			}
			left[i].Close()
			synctest.Wait()
			if !strings.Contains(log.String(), "not heard of the end of a call") || !strings.Contains(log.String(), id) {
				t.Errorf("%s: the log has %q", id, &log)
			}
		}
	})
}

// A call that cannot be sent is wrong: it does not look as if llmgov were away, which would let it through for whoever has no key.
func TestDial_OpensToNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		defer w.close(t)
		governed := w.dial(t, remote.Options{Open: true, Log: slog.New(slog.DiscardHandler)})
		for name, spoil := range map[string]func(*http.Request){
			"key":               func(r *http.Request) { r.Header.Set("Authorization", "Bearer \xff") },
			"key of Anthropic":  func(r *http.Request) { r.Header.Del("Authorization"); r.Header.Set("X-Api-Key", "sk-\xe9") },
			"key of a retry":    func(r *http.Request) { r.Header.Set("Idempotency-Key", "\xc3(") },
			"model of the path": func(r *http.Request) { r.URL.Path = "/openai/deployments/\xff/chat/completions" },
			"good":              func(r *http.Request) { r.Header.Set("X-Other", "\xff") },
		} {
			r := httptest.NewRequest(http.MethodPost, "/openai/deployments/m/chat/completions", strings.NewReader(`{"messages": []}`))
			r.Header.Set("Authorization", "Bearer sk-acme")
			spoil(r)
			served := false
			answer := httptest.NewRecorder()
			govhttp.Middleware(governed, govhttp.Options{})(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served = true })).ServeHTTP(answer, r)
			if good := name == "good"; served != good || !good && answer.Code != http.StatusBadRequest || governed.Ungoverned() > 0 {
				t.Errorf("%s: served %t, status %d, %d ungoverned: %s", name, served, answer.Code, governed.Ungoverned(), answer.Body)
			}
		}
		for _, value := range []string{"caf\xe9", "two\nlines"} {
			ctx := metadata.AppendToOutgoingContext(t.Context(), "x-of-the-program", value)
			testkit.OK(t, governed.Ping(ctx))
			stranger := asked
			stranger.Tenant = "acne"
			if r := refused(governed.Do(ctx, stranger, answer)); r.Code != client.CodeKey {
				t.Errorf("a context that sends %q: %+v", value, r)
			}
		}
		testkit.OK(t, governed.Close())
	})
}

// A token that goes over a network in clear is warned of.
func TestDial_InClear(t *testing.T) {
	for address, warns := range map[string]bool{
		"llmgov:9091": true, "10.0.0.7:9091": true, "dns:///llmgov:9091": true, ":9091": true, "127.0.0.1:9091": false, "localhost:9091": false, "[::1]:9091": false, "dns:///localhost:9091": false,
		"unix:///run/llmgov": false,
	} {
		for _, opt := range []remote.Options{{Token: "secret"}, {Token: "secret", TLS: &tls.Config{}}, {}} {
			var log bytes.Buffer
			opt.Log = slog.New(slog.NewTextHandler(&log, nil))
			c := testkit.Must(remote.Dial(address, opt))(t)
			testkit.OK(t, c.Close())
			if want := warns && opt.Token != "" && opt.TLS == nil; strings.Contains(log.String(), "in clear") != want || strings.Contains(log.String(), "secret") {
				t.Errorf("%s, TLS %t, token %q: %s", address, opt.TLS != nil, opt.Token, &log)
			}
		}
	}
}

// Of an llmgov that is away for a minute, or stands still, calls learn soon, and after some at once: they are refused, or let through by
// those who chose so, who are told. None goes ungoverned before or after. However many end meanwhile, few goroutines tell of it; when
// llmgov is back it hears of all, and nothing is left held.
func TestDial_Outage(t *testing.T) {
	const between = 19900 * time.Millisecond // two calls, of which one comes each second
	for name, c := range map[string]struct {
		down, up     func(*world)
		from, notice time.Duration
		forgets      bool
	}{
		"not there yet": {func(w *world) { w.cut(true) }, (*world).join, 0, time.Second, false},
		"cut off":       {func(w *world) { w.cut(true) }, (*world).join, between, time.Second, false},
		"killed": {(*world).kill, func(w *world) {
			w.Listener = pipenet.Listen()
			if err := w.serve(w, nil); err != nil {
				panic(err)
			}
			w.join()
		}, between, time.Second, true},
		// Keepalive notices after 15s, a new connection has 5s, and the pauses between tries are of random length.
		"frozen": {(*world).freeze, (*world).thaw, between, 22 * time.Second, false},
	} {
		for _, open := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, open %t", name, open), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { outage(t, c.down, c.up, c.from, c.notice, open, c.forgets) })
			})
		}
	}
}

// outage has llmgov away for a minute.
func outage(t *testing.T, down, up func(*world), from, notice time.Duration, open, forgets bool) {
	const each, runs, long = time.Second, 2 * time.Second, 90
	w := newWorld(t, nil)
	defer w.close(t)
	var log bytes.Buffer
	var told atomic.Int64
	governed := w.dial(t, remote.Options{
		Open:         open,
		OnUngoverned: func(client.Request, error) { told.Add(1) },
		Log:          slog.New(slog.NewTextHandler(&log, nil)),
		TTL:          5 * time.Minute, // nothing expires in time to be overlooked
	})
	begun := time.Now()
	until := from + time.Minute
	var leases []*client.Lease
	for from > 0 && len(leases) < 90 {
		leases = append(leases, testkit.Must(governed.Reserve(t.Context(), asked))(t))
	}
	go func() { // ends with the outage
		time.Sleep(from)
		down(w)
		time.Sleep(until - 10*time.Second - time.Since(begun))
		if r := refused(governed.Ping(t.Context())); r.Status != http.StatusServiceUnavailable {
			t.Errorf("a ping of nobody: %+v", r)
		}
		before := runtime.NumGoroutine()
		at := time.Now()
		for _, l := range leases {
			testkit.OK(t, l.End(client.End{Reported: true, Usage: client.Usage{Input: 50, Output: 5}}))
		}
		if took, more := time.Since(at), runtime.NumGoroutine()-before; took > 0 || more > 70 {
			t.Errorf("%d ends took %s and %d goroutines", len(leases), took, more)
		}
		time.Sleep(until - time.Since(begun))
		up(w)
	}()
	var calls sync.WaitGroup
	var ungoverned atomic.Int64
	for i := range int(long * time.Second / each) {
		calls.Go(func() {
			time.Sleep(time.Duration(i) * each)
			ctx := t.Context()
			hurried := i%2 == 1
			if hurried {
				var leave context.CancelFunc
				ctx, leave = context.WithTimeout(ctx, 5*time.Second)
				defer leave()
			}
			at := time.Since(begun)
			answered := time.Duration(-1)
			free := false
			err := governed.Do(ctx, asked, func(_ context.Context, l *client.Lease) (client.Usage, error) {
				answered = time.Since(begun)
				free = l.Grant.Ungoverned
				time.Sleep(runs)
				return client.Usage{Input: 50, Output: 5}, nil
			})
			over := time.Since(begun)
			if free {
				ungoverned.Add(1)
			}
			if answered < 0 {
				answered = over
			} else if over-answered > runs+1100*time.Millisecond {
				t.Errorf("a call at %s ended after %s", at, over-answered)
			}
			switch waited := answered - at; {
			case at < from || at >= until+2*time.Second:
				if err != nil || free || waited > 10*time.Millisecond {
					t.Errorf("a call at %s, when llmgov is there: after %s ungoverned %t, %v", at, waited, free, err)
				}
			case at >= until:
			case at < from+notice && hurried && errors.Is(err, context.DeadlineExceeded):
				if waited != 5*time.Second {
					t.Errorf("a call at %s was told after %s that its 5s are over", at, waited)
				}
			case free != open || (err == nil) != open || !open && (!errors.Is(err, client.ErrUnavailable) || refused(err).Header.Get("Retry-After") == ""):
				t.Errorf("a call at %s: ungoverned %t, %v", at, free, err)
			case waited > notice || at > from+notice+4*each && waited > 0:
				t.Errorf("a call at %s was told after %s", at, waited)
			}
		})
	}
	calls.Wait()
	if n := governed.Ungoverned(); n != ungoverned.Load() || n != told.Load() || (n > 0) != open {
		t.Errorf("%d calls went ungoverned, %d were told of, %d are counted", ungoverned.Load(), told.Load(), n)
	}
	testkit.OK(t, governed.Ping(t.Context()))
	if running, waiting := w.gov.Leases(); running+waiting+w.book.Open() > 0 {
		t.Errorf("%d run, %d wait, %d reservations", running, waiting, w.book.Open())
	}
	loss, unheard := strings.Count(log.String(), "cannot be asked")+strings.Count(log.String(), "answers again"), strings.Count(log.String(), "end of a call")
	if loss != 2 || forgets && unheard < len(leases) || unheard > 0 && !forgets {
		t.Errorf("%d lines of the loss and the return, %d of ends:\n%.3000s", loss, unheard, &log)
	}
	testkit.OK(t, governed.Close())
}

// The deadline of a call that waits is its own, even where the connection notices it first: no reason to let it through. A call that
// has time left is none that was waited for.
func TestDial_Deadline(t *testing.T) {
	for _, code := range []codes.Code{codes.DeadlineExceeded, codes.Canceled} {
		for early, mine := range map[time.Duration]bool{time.Millisecond: true, 0: true, 100 * time.Millisecond: true, 10 * time.Second: false} {
			for _, open := range []bool{false, true} {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t, nil)
					defer w.close(t)
					governed := w.dial(t, remote.Options{Open: open, Log: slog.New(slog.DiscardHandler), Connection: []grpc.DialOption{
						grpc.WithUnaryInterceptor(func(ctx context.Context, method string, _, _ any, _ *grpc.ClientConn, _ grpc.UnaryInvoker, _ ...grpc.CallOption) error {
							until, ok := ctx.Deadline()
							if !ok || !strings.HasSuffix(method, "/Reserve") {
								return nil
							}
							time.Sleep(time.Until(until) - early)
							return status.Error(code, "as the connection has it")
						}),
					}})
					ctx, leave := context.WithTimeout(t.Context(), 20*time.Second)
					defer leave()
					err := governed.Do(ctx, asked, func(context.Context, *client.Lease) (client.Usage, error) {
						if mine {
							t.Error("it ran")
						}
						return client.Usage{}, nil
					})
					if errors.Is(err, context.DeadlineExceeded) != mine {
						t.Errorf("%s, %s early, open %t: %v", code, early, open, err)
					}
					_ = governed.Close()
				})
			}
		}
	}
}

// Addresses that could never be reached are errors at once.
func TestDial_Address(t *testing.T) {
	for address, good := range map[string]bool{
		"llmgov:9091": true, "127.0.0.1:9091": true, "[::1]:9091": true, "dns:///llmgov:9091": true, "unix:///run/llmgov": true, ":9091": true,
		"": false, "llmgov": false, "llmgov:": false, "llmgov:admission": false, "llmgov:0": false, "llmgov:90910": false, "::1": false,
		"http://llmgov:9091": false, "https://llmgov:9091": false, "http://llmgov": false, "llmgov:9091/v1": false, "grpc://llmgov:9091": false,
	} {
		c, err := remote.Dial(address, remote.Options{})
		if (err == nil) != good {
			t.Errorf("%q: %v", address, err)
		}
		if c != nil {
			_ = c.Close()
		}
	}
}

// A wrong token is a refusal that says so, and never opens.
func TestDial_WrongToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		defer w.close(t)
		governed := w.dial(t, remote.Options{Open: true, Connection: []grpc.DialOption{grpc.WithPerRPCCredentials(wrong{})}})
		if r := refused(governed.Do(t.Context(), asked, answer)); r.Status != http.StatusUnauthorized {
			t.Errorf("%+v", r)
		}
		if r := refused(governed.Ping(t.Context())); r.Status != http.StatusUnauthorized || !r.Final {
			t.Errorf("a ping: %+v", r)
		}
		_ = governed.Close()
	})
	for option, opt := range map[string]remote.Options{"TTL": {TTL: time.Millisecond}, "Token": {Token: token + "\n"}} {
		if _, err := remote.Dial("llmgov:9091", opt); err == nil || !strings.Contains(err.Error(), option) || strings.Contains(err.Error(), token) {
			t.Errorf("a wrong %s: %v", option, err)
		}
	}
}

type wrong struct{}

func (wrong) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer wrong"}, nil
}
func (wrong) RequireTransportSecurity() bool { return false }
