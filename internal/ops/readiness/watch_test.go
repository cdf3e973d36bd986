package readiness

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/internal/test/testkit"
)

// others are gateways by their addresses: what each says of the store, or that it does not answer.
type others map[string]string

const silent = "silent"

func (o others) RoundTrip(req *http.Request) (*http.Response, error) {
	says, known := o[req.URL.Host]
	switch {
	case !known:
		return nil, errors.New("connection refused")
	case says == silent:
		<-req.Context().Done()
		return nil, req.Context().Err()
	}
	answer := httptest.NewRecorder()
	if says != "" {
		Tell(answer.Header(), says == Answers)
	}
	answer.WriteHeader(http.StatusServiceUnavailable) // of another cause
	return answer.Result(), nil
}

func (o others) addresses() (list []string) {
	for address := range o {
		list = append(list, address)
	}
	return append(list, "gone:9090")
}

// A gateway that is cut off is not ready if another one has the store, and stays ready if none is known to.
func TestWatch_Rules(t *testing.T) {
	for _, c := range []struct {
		name   string
		others others
		ready  map[Rule]bool
		never  bool // it has never reached the store
	}{
		{"it never had the store", others{}, map[Rule]bool{Never: true}, true},
		{"another has the store", others{"a:1": Lost, "b:1": Answers, "c:1": silent}, map[Rule]bool{Never: true}, false},
		{"nobody has the store", others{"a:1": Lost, "b:1": Lost}, map[Rule]bool{Never: true, Alone: true}, false},
		{"nobody answers", others{"a:1": silent}, map[Rule]bool{Never: true, Alone: true}, false},
		{"another is no gateway of this kind", others{"a:1": ""}, map[Rule]bool{Never: true, Alone: true}, false},
		{"there is no other", others{}, map[Rule]bool{Never: true, Alone: true}, false},
	} {
		for _, rule := range []Rule{Alone, Always, Never} {
			t.Run(c.name+", "+string(rule), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var cut atomic.Bool
					w := New(Config{Rule: rule, CutOff: cut.Load, Reached: func() bool { return !c.never }, Others: c.others.addresses, Client: &http.Client{Transport: c.others}})
					ctx, stop := context.WithCancel(t.Context())
					go func() { _ = w.Run(ctx) }()
					time.Sleep(10 * time.Second)
					if err := w.Unready(); err != nil {
						t.Errorf("with the store: %v", err)
					}
					cut.Store(true)
					time.Sleep(3 * time.Second)
					if ready := w.Unready() == nil; ready != c.ready[rule] {
						t.Errorf("cut off, it is ready: %v", ready)
					}
					cut.Store(false)
					if err := w.Unready(); err != nil {
						t.Errorf("with the store again: %v", err)
					}
					stop()
					synctest.Wait()
				})
			})
		}
	}
}

// Others are not asked before they have had the time to notice that the store is lost for all.
func TestWatch_OthersNotice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begins := time.Now().Add(1500 * time.Millisecond)
		var asked atomic.Int64 // how long after that, first
		w := New(Config{
			Rule: Alone, CutOff: func() bool { return !time.Now().Before(begins) }, Reached: func() bool { return true }, Client: &http.Client{Transport: others{}},
			Others: func() []string { asked.CompareAndSwap(0, int64(time.Since(begins))); return nil },
		})
		ctx, stop := context.WithCancel(t.Context())
		go func() { _ = w.Run(ctx) }()
		time.Sleep(10 * time.Second)
		if after := time.Duration(asked.Load()); after < time.Second || after > 2*time.Second {
			t.Errorf("first asked %v after the loss", after)
		}
		stop()
		synctest.Wait()
	})
}

// A listener on all interfaces is announced by the address that leads to the store, others by their own; one on
// loopback only to gateways on the same machine.
func TestAddress(t *testing.T) {
	for _, c := range []struct{ listener, server, want string }{
		{"0.0.0.0:9090", "127.0.0.1:6379", "127.0.0.1:9090"},
		{"[::]:9090", "127.0.0.1:6379", "127.0.0.1:9090"},
		{"127.0.0.1:9090", "127.0.0.1:6379", "127.0.0.1:9090"},
		{"10.1.2.3:9090", "127.0.0.1:6379", "10.1.2.3:9090"},
		{"0.0.0.0:9090", "no port", ""},
		{"0.0.0.0:9090", "", ""},
	} {
		at := testkit.Must(net.ResolveTCPAddr("tcp", c.listener))(t)
		if got := Address(at, c.server); got != c.want {
			t.Errorf("%s towards %q is announced as %q, want %q", c.listener, c.server, got, c.want)
		}
	}
	if got := Address(&net.UnixAddr{Name: "/run/llmgov.sock"}, "127.0.0.1:6379"); got != "" {
		t.Errorf("a socket is announced as %q", got)
	}
}
