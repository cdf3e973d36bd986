// Package remote opens the governor of a running llmgov to a program, over its admission listener:
//
//	governed, err := remote.Dial("llmgov:9091", remote.Options{Token: os.Getenv("ADMISSION_TOKEN")})
//
// A program that has had its own governor (package embedded) and is to share limits with others changes that line, and
// no other: the Client is the same. Its calls wait in one line with those of all other programs and gateways.
//
// # What differs
//
// A lease is a reservation at llmgov, which expires unless it hears of it. As long as the program lives and can reach
// llmgov, this package keeps it alive, however seldom the call itself shows Progress. If the program dies, the call is
// charged by estimate when its TTL ends. If llmgov cannot be reached, a call is refused with the status 503, or goes
// ungoverned if Options say so.
package remote

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"

	"github.com/llmgov/llmgov/governor/client"
	"github.com/llmgov/llmgov/governor/remote/admissionv1"
)

// Options are the settings of a connection. The zero Options suit a listener on this machine without a token.
type Options struct {
	// Token is the listener's admission.token, with which calls may name any tenant; or the key of a tenant, for calls
	// of that one alone.
	Token string
	// TLS, if set, is for a listener behind a TLS terminator; nil speaks HTTP/2 without TLS.
	TLS *tls.Config
	// TTL is how long llmgov keeps the reservation of a program that has died: 1 s to 1 h. 0 is a minute. With the key of a tenant it is
	// at most timeouts.stream_idle of llmgov's config.
	TTL time.Duration
	// Open lets calls through, ungoverned, while llmgov cannot be reached. By default they are refused.
	Open bool
	// Connection has further options of the connection, such as interceptors.
	Connection []grpc.DialOption
}

// Dial returns a Client of the llmgov whose admission listener is at an address, host:port. It connects when it is
// first used, and again when the connection is lost.
func Dial(address string, opt Options) (*client.Client, error) {
	if opt.TTL == 0 {
		opt.TTL = time.Minute
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
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 20 * time.Second, Timeout: 10 * time.Second}),
		grpc.WithDefaultServiceConfig(retries),
	}, opt.Connection...)...)
	if err != nil {
		return nil, fmt.Errorf("remote: %w", err)
	}
	return client.New(&door{Options: opt, conn: conn, stub: admissionv1.NewAdmissionServiceClient(conn)}), nil
}

// retries repeats what may not have reached llmgov. All of its calls may be repeated.
const retries = `{"methodConfig": [{"name": [{"service": "llmgov.admission.v1.AdmissionService"}], "retryPolicy": {
	"maxAttempts": 4, "initialBackoff": "0.05s", "maxBackoff": "1s", "backoffMultiplier": 3, "retryableStatusCodes": ["UNAVAILABLE"]}}]}`

// token is sent with each call.
type token string

// GetRequestMetadata implements credentials.PerRPCCredentials.
func (t token) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	if t == "" {
		return nil, nil
	}
	return map[string]string{"authorization": "Bearer " + string(t)}, nil
}

// RequireTransportSecurity implements credentials.PerRPCCredentials.
func (token) RequireTransportSecurity() bool { return false }

// door implements client.Door.
type door struct {
	Options
	conn   *grpc.ClientConn
	stub   admissionv1.AdmissionServiceClient
	ending sync.WaitGroup
}

// Close implements client.Door. It waits for the ends of calls that are on their way.
func (d *door) Close() error {
	d.ending.Wait()
	return d.conn.Close()
}

// Reserve implements client.Door.
func (d *door) Reserve(ctx context.Context, req client.Request) (*client.Lease, error) {
	ask := d.ask(&req)
	answer, err := d.stub.Reserve(ctx, ask)
	if err != nil {
		d.ending.Go(func() { d.giveBack(ask.ReservationId) })
	}
	switch {
	case ctx.Err() != nil && err != nil:
		return nil, ctx.Err()
	case err != nil && d.Open && lost(err):
		l := &client.Lease{}
		l.Begin(ctx, ungoverned{}, client.Grant{ID: req.ID, Tenant: req.Tenant, Pool: req.Pool})
		return l, nil
	case err != nil:
		return nil, refusalOf(err)
	case answer.Refusal != nil:
		return nil, refusal(answer.Refusal, answer.Headers)
	}
	h := &held{door: d, id: answer.ReservationId, headers: answer.Headers}
	h.begin(answer.Ttl.AsDuration())
	id := req.ID
	if id == "" {
		id = answer.ReservationId
	}
	h.lease.Begin(ctx, h, client.Grant{ID: id, Tenant: answer.Tenant, Pool: answer.Pool, Waited: answer.Waited.AsDuration()})
	return &h.lease, nil
}

// giveBack cancels a reservation that may have been made, although no answer said so.
func (d *door) giveBack(id string) {
	ctx, cancel := context.WithTimeout(context.Background(), d.TTL)
	defer cancel()
	_, _ = d.stub.Cancel(ctx, &admissionv1.CancelRequest{ReservationId: id}) // if it fails, the ttl ends it
}

// ungoverned is what is held of a call that nobody could be asked about.
type ungoverned struct{}

func (ungoverned) Progress(client.Produced)      {}
func (ungoverned) End(client.End)                {}
func (ungoverned) EndBy(context.CancelCauseFunc) {}
func (ungoverned) Show(h http.Header)            { h.Set("X-Llmgov-Degraded", "open") }
