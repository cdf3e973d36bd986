package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// opened is a number of gateways of one contestant that share a site of their own, except for its model server.
type opened struct {
	*contestant
	gateways []*gateway
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
	o := &opened{contestant: c}
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

// cpu is the time that the gateway used so far, and that of whatever runs beside it.
func (o *opened) cpu() (proxy, others time.Duration, err error) {
	g := o.first()
	proxy, err = g.proxy.cpu()
	if err != nil {
		return 0, 0, err
	}
	beside := g.others
	if o.redis != nil {
		beside = append([]*process{o.redis}, beside...)
	}
	for _, p := range beside {
		d, err := p.cpu()
		if err != nil {
			return 0, 0, err
		}
		others += d
	}
	return proxy, others, nil
}
