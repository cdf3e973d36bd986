package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"sync"
	"time"
)

// bare is a reverse proxy without any limit: the least that a gateway can cost.
var bare = contestant{
	name:    "ReverseProxy",
	setting: "Go's httputil.ReverseProxy with a buffer pool and kept connections; no keys, no limits",
	open: func(ctx context.Context, _ *bench, s *site) (*gateway, error) {
		self, err := os.Executable()
		if err != nil {
			return nil, err
		}
		addr, err := freeAddr()
		if err != nil {
			return nil, err
		}
		p, err := start(ctx, command{
			name: "bare", core: gatewayCore, dir: s.dir, addr: addr, env: []string{"GOMAXPROCS=1"},
			args: []string{self, "-role", "bare", "-listen", addr, "-upstream", s.model.url},
		})
		if err != nil {
			return nil, err
		}
		return newGateway(p), nil
	},
	lacks: map[limit]bool{limitBudget: true, limitTPM: true, limitParallel: true},
}

// serveBare is the process of the bare reverse proxy.
func serveBare(ctx context.Context, listen, upstream string) error {
	to, err := url.Parse(upstream)
	if err != nil {
		return err
	}
	server := &http.Server{
		ReadHeaderTimeout: 10 * time.Second,
		Handler: &httputil.ReverseProxy{
			Rewrite:    func(r *httputil.ProxyRequest) { r.SetURL(to) },
			ErrorLog:   slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug),
			BufferPool: &buffers{sync.Pool{New: func() any { return new([bufferSize]byte) }}},
			Transport:  &http.Transport{MaxIdleConnsPerHost: 256, DisableCompression: true},
		},
	}
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

const bufferSize = 32 << 10

type buffers struct{ pool sync.Pool }

// Get implements httputil.BufferPool.
func (b *buffers) Get() []byte { return b.pool.Get().(*[bufferSize]byte)[:] }

// Put implements httputil.BufferPool.
func (b *buffers) Put(p []byte) { b.pool.Put((*[bufferSize]byte)(p)) }
