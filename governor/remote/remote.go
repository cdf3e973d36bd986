// Package remote opens the governor of a running llmgov to a program, over its admission listener:
//
//	governed, err := remote.Dial("llmgov:9091", remote.Options{Token: os.Getenv("ADMISSION_TOKEN")})
//
// A program that has had its own governor (package embedded) and is to share limits with others changes how it opens its Client, and
// nothing else: that is the same. Its calls wait in one line with those of all other programs and gateways.
//
// # What differs
//
// A lease is a reservation at llmgov, which expires unless it hears of it. As long as the program lives and can reach
// llmgov, this package keeps it alive, however seldom the call itself shows Progress. If the program dies, the call is
// charged by estimate when its TTL ends. If llmgov cannot be reached, a call is refused with the status 503, or goes
// ungoverned if Options say so; its Grant, Options.OnUngoverned and [client.Client.Ungoverned] tell. The first calls try for less than a second;
// later ones are told at once, until llmgov, which is looked for every second, is there again. One that is frozen is noticed within 22
// seconds. A call whose context ends first has the context's error, whatever llmgov does. Ends of calls are told behind the program until llmgov
// has heard of them, for as long as its TTL: a Shutdown waits for that.
//
// # Stability
//
// Stable: what compiles and works with one release does so with the next.
package remote

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/status"

	"github.com/llmgov/llmgov/governor/client"
	"github.com/llmgov/llmgov/governor/client/doors"
	"github.com/llmgov/llmgov/governor/remote/admissionv1"
	"github.com/llmgov/llmgov/internal/lib/inflight"
)

// Options are the settings of a connection. The zero Options suit a listener on this machine without a token.
type Options struct {
	// Token is the listener's admission.token, with which calls may name any tenant; or the key of a tenant, for calls
	// of that one alone.
	Token string
	// TLS, if set, is for a listener with TLS (admission.tls), or behind something that ends it; nil speaks HTTP/2 without TLS.
	TLS *tls.Config
	// TTL is how long llmgov keeps the reservation of a program that has died: 1 s to 1 h. 0 is a minute. With the key of a tenant it is
	// at most timeouts.stream_idle of llmgov's config.
	TTL time.Duration
	// Open lets calls through, ungoverned, while llmgov cannot be reached. By default they are refused.
	Open bool
	// MaxHold is the longest time from a lease to its end. One that is older has expired: it is charged by estimate, and its context ends.
	// 0 is no bound.
	MaxHold time.Duration
	// OnUngoverned, if set, is told of each call that goes ungoverned, and why. It may be called from several goroutines at once.
	OnUngoverned func(req client.Request, why error)
	// Log has when llmgov could not be reached any more, when it answered again, ends of calls of which it has not heard, forgotten leases,
	// usage that cannot be, and a token that would go over a network in clear. nil is slog.Default().
	Log *slog.Logger
	// Connection has further options of the connection, such as interceptors.
	Connection []grpc.DialOption
}

// Dial returns a Client of the llmgov whose admission listener is at an address, host:port, or what else gRPC can resolve, such as
// dns:///host:port. It connects when it is first used, and again when the connection is lost; [client.Client.Ping] does so at once, and tells
// whether llmgov is there and takes the token.
func Dial(address string, opt Options) (*client.Client, error) {
	if err := checkAddress(address); err != nil {
		return nil, err
	}
	opt.Log = cmp.Or(opt.Log, slog.Default())
	if opt.TTL == 0 {
		opt.TTL = time.Minute
	}
	if strings.ContainsFunc(opt.Token, unicode.IsControl) {
		return nil, errors.New("remote: Token holds a control character, such as the end of the line of the file that it was read from: remove it")
	}
	if opt.TTL < time.Second || opt.TTL > time.Hour {
		return nil, fmt.Errorf("remote: TTL is %s, not from 1s to 1h", opt.TTL)
	}
	security := insecure.NewCredentials()
	if opt.TLS != nil {
		security = credentials.NewTLS(opt.TLS)
	}
	conn, err := grpc.NewClient(address, append([]grpc.DialOption{
		grpc.WithTransportCredentials(security),
		grpc.WithPerRPCCredentials(token(opt.Token)),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 5 * time.Second}), // llmgov may be frozen
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: reconnect, MinConnectTimeout: connectPatience}),
		grpc.WithDefaultServiceConfig(retries),
	}, opt.Connection...)...)
	if err != nil {
		return nil, fmt.Errorf("remote: %w", err)
	}
	if opt.Token != "" && opt.TLS == nil && len(opt.Connection) == 0 && !onThisMachine(address) {
		opt.Log.Warn("the token goes to llmgov in clear: set remote.Options.TLS, or have a sidecar encrypt the connection", "target", address)
	}
	d := &door{Options: opt, conn: conn, stub: admissionv1.NewAdmissionServiceClient(conn), open: map[*held]struct{}{}}
	d.waiting, d.refuse = context.WithCancel(context.Background())
	d.telling, d.giveUp = context.WithCancel(context.Background())
	return doors.Open(d, doors.Options{Log: opt.Log, MaxHold: opt.MaxHold}), nil
}

// onThisMachine reports whether an address surely leads to this machine.
func onThisMachine(address string) bool {
	if strings.HasPrefix(address, "unix:") || strings.HasPrefix(address, "unix-abstract:") {
		return true
	}
	host, _, err := net.SplitHostPort(address[strings.LastIndex(address, "/")+1:])
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// retries repeats what may not have reached llmgov. All of its calls may be repeated.
const retries = `{"methodConfig": [{"name": [{"service": "llmgov.admission.v1.AdmissionService"}], "retryPolicy": {
	"maxAttempts": 4, "initialBackoff": "0.05s", "maxBackoff": "1s", "backoffMultiplier": 3, "retryableStatusCodes": ["UNAVAILABLE"]}}]}`

// reconnect is how often a lost llmgov is looked for.
var reconnect = backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second}

// connectPatience is how long a connection may take to be made.
const connectPatience = 5 * time.Second

// checkAddress refuses what gRPC would take, and never reach.
func checkAddress(address string) error {
	scheme, _, named := strings.Cut(address, ":")
	if named && resolver.Get(scheme) != nil {
		return nil // gRPC checks these
	}
	host, port, err := net.SplitHostPort(address)
	if n, wrong := strconv.ParseUint(port, 10, 16); err != nil || wrong != nil || n == 0 || strings.Contains(host, "/") {
		return fmt.Errorf("remote: the address %q is not host:port: write that of the admission listener, such as llmgov:9091, without http://", address)
	}
	return nil
}

// token is sent with each call.
type token string

func (t token) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	if t == "" {
		return nil, nil
	}
	return map[string]string{"authorization": "Bearer " + string(t)}, nil
}

func (token) RequireTransportSecurity() bool { return false }

// door implements doors.Door, and doors.Pinger.
type door struct {
	Options
	conn  *grpc.ClientConn
	stub  admissionv1.AdmissionServiceClient
	unmet atomic.Int64 // how many calls in a row could not be asked about

	waiting context.Context // ends the calls that wait
	refuse  context.CancelFunc
	telling context.Context // ends when nobody tells of ends any more
	giveUp  context.CancelFunc

	inflight inflight.Count // of calls that ask, leases whose ends were not told, and reservations that are given back
	mu       sync.Mutex
	open     map[*held]struct{} // guarded by mu: whose calls run
	untold   []ending           // guarded by mu: which nobody tells yet
	busy     int                // guarded by mu: how many tellers there are
}

// patient is how many calls in a row try again while llmgov cannot be reached. Later ones do not: they are told at once, until there is a
// connection again.
const patient = 3

// errAway says that nobody was asked about a call, because there was no connection for calls before.
var errAway = status.Error(codes.Unavailable, "there has been no connection for some time")

// soon is how long calls that were cut off have to tell of their ends.
const soon = time.Second

// Shutdown implements doors.Door. llmgov hears of all ends that come in time.
func (d *door) Shutdown(ctx context.Context) error {
	d.refuse()
	late := d.inflight.Drain(ctx)
	if late != nil {
		d.mu.Lock()
		open := slices.Collect(maps.Keys(d.open))
		d.mu.Unlock()
		for _, h := range open {
			h.interrupt(doors.Closed)
		}
		last, cancel := context.WithTimeout(context.Background(), soon)
		defer cancel()
		_ = d.inflight.Drain(last)
	}
	d.giveUp()
	if err := d.conn.Close(); err != nil && status.Code(err) != codes.Canceled { // it may have been closed before
		return err
	}
	return late
}

// Ping implements doors.Pinger. It asks for a reservation that nobody has: whoever says so is there, and has taken the token.
func (d *door) Ping(ctx context.Context) error {
	_, err := d.stub.Progress(bare(ctx), &admissionv1.ProgressRequest{ReservationId: "rsv_" + rand.Text()})
	if forgotten(err) {
		return nil
	}
	if gone := callerGone(ctx, err); gone != nil {
		return fmt.Errorf("%w: %w", gone, err) // which says how far it came
	}
	return refusalOf(err)
}

// Reserve implements doors.Door.
func (d *door) Reserve(ctx context.Context, req client.Request) (doors.Held, error) {
	d.inflight.Enter(math.MaxInt64)
	defer d.inflight.Leave()
	ask := d.ask(&req)
	wait, cancel := context.WithCancel(bare(ctx))
	defer cancel()
	defer context.AfterFunc(d.waiting, cancel)()
	answer, err := d.reserve(wait, ask)
	if gone := callerGone(ctx, err); gone != nil {
		return nil, gone
	}
	if err != nil && d.waiting.Err() != nil {
		return nil, doors.Closed
	}
	away := err != nil && lost(err)
	d.note(away, err)
	switch {
	case away && d.Open:
		if d.OnUngoverned != nil {
			d.OnUngoverned(req, refusalOf(err))
		}
		return ungoverned{client.Grant{ID: req.ID, Tenant: req.Tenant, Pool: req.Pool, Ungoverned: true}}, nil
	case err != nil:
		return nil, refusalOf(err)
	case answer.Refusal != nil:
		return nil, refusal(answer.Refusal, answer.Headers)
	}
	h := &held{door: d, id: answer.ReservationId, headers: answer.Headers, grant: client.Grant{
		ID: cmp.Or(req.ID, answer.ReservationId), Tenant: answer.Tenant, Pool: answer.Pool, MaxOutput: answer.MaxOutputTokens, Waited: answer.Waited.AsDuration(),
	}}
	if !d.opened(h) {
		d.giveBack(h.id)
		return nil, doors.Closed
	}
	h.begin(answer.Ttl.AsDuration())
	return h, nil
}

// bare is a context without what a program sends to others by gRPC. That is not for llmgov, and what gRPC cannot send would look as if
// llmgov were away.
func bare(ctx context.Context) context.Context { return metadata.NewOutgoingContext(ctx, nil) }

// opened notes that a call has its lease. It reports false if the Client was shut down before.
func (d *door) opened(h *held) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.waiting.Err() != nil {
		return false
	}
	d.inflight.Enter(math.MaxInt64)
	d.open[h] = struct{}{}
	return true
}

// reserve asks llmgov, unless the Client is shut down, or llmgov could not be reached for some time.
func (d *door) reserve(ctx context.Context, ask *admissionv1.ReserveRequest) (*admissionv1.ReserveResponse, error) {
	if err := d.waiting.Err(); err != nil {
		return nil, err
	}
	if d.unmet.Load() >= patient && d.disconnected() && ctx.Err() == nil {
		return nil, errAway
	}
	answer, err := d.stub.Reserve(ctx, ask)
	if err != nil {
		d.giveBack(ask.ReservationId)
	}
	return answer, err
}

// disconnected reports whether there is no connection, though one was looked for.
func (d *door) disconnected() bool { return d.conn.GetState() == connectivity.TransientFailure }

// note notes whether llmgov was away when it was asked about a call.
func (d *door) note(away bool, why error) {
	switch {
	case !away:
		if n := d.unmet.Swap(0); n > 0 {
			d.Log.Info("llmgov answers again", "target", d.conn.Target(), "calls_without", n)
		}
	case d.unmet.Add(1) == 1:
		d.Log.Warn("llmgov cannot be asked", "target", d.conn.Target(), "open", d.Open, "err", why)
	}
}

// callerGone is the error of a context with whose end a call came to nothing; nil if that was not the reason. The connection and
// llmgov may notice the end of a deadline a moment before the context does.
func callerGone(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if gone := ctx.Err(); gone != nil {
		return gone
	}
	until, ok := ctx.Deadline()
	if code := status.Code(err); ok && time.Until(until) < time.Second && (code == codes.DeadlineExceeded || code == codes.Canceled) {
		return context.DeadlineExceeded
	}
	return nil
}

// ungoverned is what is held of a call that nobody could be asked about.
type ungoverned struct{ grant client.Grant }

func (u ungoverned) Grant() client.Grant         { return u.grant }
func (ungoverned) Progress(client.Produced)      {}
func (ungoverned) End(client.End)                {}
func (ungoverned) EndBy(context.CancelCauseFunc) {}
func (ungoverned) Show(h http.Header)            { h.Set("X-Llmgov-Degraded", "open") }
