package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"time"
)

// gateway is a running contestant.
type gateway struct {
	url    string
	proxy  *process
	others []*process // its store, and other services that it asks
	client *http.Client
	admin  string // of llmgov
	store  string
	// answered is when it answered its first call.
	answered time.Time
}

// newGateway is one whose proxy has started.
func newGateway(proxy *process, others ...*process) *gateway {
	return &gateway{
		url: "http://" + proxy.addr, proxy: proxy, others: others,
		client: &http.Client{
			Timeout:   2 * time.Minute,
			Transport: &http.Transport{MaxIdleConnsPerHost: 256, DisableCompression: true},
		},
	}
}

func (g *gateway) close() {
	g.client.CloseIdleConnections()
	g.proxy.stop()
	for _, p := range g.others {
		p.stop()
	}
}

// unlimited has every kind of limit, none of which it reaches. It is a tenant of every site.
var unlimited = tenant{name: "unlimited", calls: plenty, budget: plenty, tpm: plenty, parallel: 10_000}

// awaitAnswer calls until it is answered.
func (g *gateway) awaitAnswer(ctx context.Context) error {
	for until := time.Now().Add(longestStart); time.Now().Before(until); time.Sleep(2 * time.Millisecond) {
		if g.status(ctx, unlimited.key(), workloads[0].body) == http.StatusOK {
			g.answered = time.Now()
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return errors.New("it does not answer: " + g.proxy.lastWords())
}

func portOf(addr string) string {
	_, port, _ := net.SplitHostPort(addr)
	return port
}

func hostPort(url string) string { return strings.TrimPrefix(url, "http://") }
