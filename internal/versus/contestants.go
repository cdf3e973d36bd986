package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// contestant is a gateway in one way to run it.
type contestant struct {
	name    string
	setting string // how it is run, for the page
	// store is set if it keeps its counters in Redis.
	store bool
	open  func(context.Context, *bench, *site) (*gateway, error)
	// charged is the number of tokens that count in a tenant's limits a minute. It is nil if the gateway counts none.
	charged account
	// spent is the number of tokens that count in its budget; nil if that is the same counter.
	spent account
	// lacks says which limits of a tenant it does not have.
	lacks map[limit]bool
}

// account reads what a tenant was charged, in tokens.
type account func(context.Context, *gateway, tenant) (int64, error)

// limit is a kind of limit that a gateway has or lacks.
type limit int

const (
	limitCalls limit = iota
	limitBudget
	limitTPM
	limitParallel
)

// contestants are all of them, in the order of the columns.
var contestants = []*contestant{&bare, &envoyLocal, &envoyGlobal, &liteLLM, &alone, &shared}

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

// opened is a number of gateways of one contestant that share a site of their own, except for its model server.
type opened struct {
	*contestant
	gateways []*gateway
	site     *site
	redis    *process
}

func (o *opened) close() {
	for _, g := range o.gateways {
		g.close()
	}
	if o.redis != nil {
		o.redis.stop()
	}
}

// first is the gateway that a case with a single one uses.
func (o *opened) first() *gateway { return o.gateways[0] }

// openOne starts gateways of a contestant, in a folder of their own.
func (b *bench) openOne(ctx context.Context, c *contestant, s site) (*opened, error) {
	s.gateways = max(s.gateways, 1)
	s.tenants = append(slices.Clip(s.tenants), unlimited)
	dir, err := os.MkdirTemp(b.dir, "site")
	if err != nil {
		return nil, err
	}
	o := &opened{contestant: c, site: &s}
	if c.store {
		s.dir = dir
		o.redis, err = startRedis(ctx, dir)
		if err != nil {
			return nil, err
		}
		s.store = o.redis.addr
	}
	for i := range s.gateways {
		each := s
		each.dir = filepath.Join(dir, fmt.Sprint(i))
		if err := os.Mkdir(each.dir, 0o700); err != nil {
			o.close()
			return nil, err
		}
		g, err := c.open(ctx, b, &each)
		if err != nil {
			o.close()
			return nil, fmt.Errorf("%s: %w", c.name, err)
		}
		g.store = s.store
		o.gateways = append(o.gateways, g)
	}
	for _, g := range o.gateways {
		if err := g.awaitAnswer(ctx); err != nil {
			o.close()
			return nil, fmt.Errorf("%s: %w", c.name, err)
		}
	}
	return o, nil
}

// openAll starts every contestant that was chosen.
func (b *bench) openAll(ctx context.Context, s site) (all []*opened, closeAll func(), err error) {
	closeAll = func() {
		for _, o := range all {
			o.close()
		}
	}
	for _, c := range b.chosen {
		o, err := b.openOne(ctx, c, s)
		if err != nil {
			closeAll()
			return nil, nil, err
		}
		all = append(all, o)
	}
	return all, closeAll, nil
}

func portOf(addr string) string {
	_, port, _ := net.SplitHostPort(addr)
	return port
}

func hostPort(url string) string { return strings.TrimPrefix(url, "http://") }
