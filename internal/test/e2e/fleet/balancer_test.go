package fleet

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/llmgov/llmgov/internal/lab/load"
)

// balancer sends calls to gateways as a load balancer does: to one that is ready and has the fewest open calls, and to another one
// if there is none at the address, or it says that it stops.
type balancer struct {
	skewed    bool // most calls go to the first gateway, however many are open there
	t         *testing.T
	transport *http.Transport
	members   []*member
	turn      atomic.Uint64
	moved     atomic.Int64 // calls that went to another gateway
}

// member is a gateway behind a load balancer.
type member struct {
	*gateway
	open  atomic.Int64
	ready atomic.Bool
}

func newBalancer(t *testing.T, gateways []*gateway) *balancer {
	b := &balancer{t: t, transport: load.NewTransport(100)}
	for _, g := range gateways {
		m := &member{gateway: g}
		b.members = append(b.members, m)
		go m.watch(t.Context())
	}
	return b
}

// watch asks a gateway twice per second whether it is ready.
func (m *member) watch(ctx context.Context) {
	client := http.Client{Timeout: time.Second}
	for ctx.Err() == nil {
		resp, err := client.Get(m.proc.Load().Admin + "/readyz")
		m.ready.Store(err == nil && resp.StatusCode == http.StatusOK)
		if err == nil {
			resp.Body.Close()
		}
		time.Sleep(500 * time.Millisecond)
	}
}

func (b *balancer) RoundTrip(req *http.Request) (resp *http.Response, err error) {
	order := b.order()
	for _, m := range slices.Concat(order, order) {
		resp, err = b.send(m, req)
		elsewhere := errors.Is(err, errNotSent) || err == nil && stopping(resp)
		if !elsewhere {
			return resp, err
		}
		b.moved.Add(1)
	}
	return resp, err
}

// order begins with the gateway that is to get the next call. If none is ready, any has to do.
func (b *balancer) order() []*member {
	turn := int(b.turn.Add(1))
	first := turn % len(b.members)
	if b.skewed && turn%5 != 0 {
		first = 0
	}
	list := slices.Concat(b.members[first:], b.members[:first])
	rank := map[*member]int64{}
	for _, m := range list {
		if !b.skewed {
			rank[m] = m.open.Load()
		}
		if !m.ready.Load() {
			rank[m] += 1_000_000
		}
	}
	slices.SortStableFunc(list, func(a, b *member) int { return int(rank[a] - rank[b]) })
	return list
}

// errNotSent says that nothing listens there.
var errNotSent = errors.New("not sent")

func (b *balancer) send(m *member, req *http.Request) (*http.Response, error) {
	m.open.Add(1)
	defer m.open.Add(-1)
	host := strings.TrimPrefix(m.proc.Load().Data, "http://")
	out := req.Clone(req.Context())
	out.URL.Scheme = "http"
	out.URL.Host = host
	out.Host = host
	body, err := req.GetBody()
	if err != nil {
		return nil, err
	}
	out.Body = body
	resp, err := b.transport.RoundTrip(out)
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		err = errNotSent
	}
	return resp, err
}

// stopping reports whether a gateway says that it stops. The answer can be read again.
func stopping(resp *http.Response) bool {
	if resp.StatusCode != http.StatusServiceUnavailable {
		return false
	}
	text, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	resp.Body = io.NopCloser(bytes.NewReader(text))
	return bytes.Contains(text, []byte(`"draining"`))
}
