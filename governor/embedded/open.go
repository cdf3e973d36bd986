package embedded

import (
	"cmp"
	"context"
	"crypto/rand"
	"log/slog"
	"os"
	"slices"
	"strings"

	"github.com/llmgov/llmgov/governor/client"
	"github.com/llmgov/llmgov/internal/instance"
	"github.com/llmgov/llmgov/tenants"
)

// Options are optional.
type Options struct {
	// Log has reloads, and trouble with the store and the disk. nil is slog.Default().
	Log *slog.Logger
	// Env is the environment that overrides settings and fills ${…} in files. nil is the process's.
	Env []string
}

// Open opens a governor by a config file and the policy files that it names, and follows them. With a shared store
// it waits until the store has answered, for at most a second or two, or until ctx ends. Close the Client at the end.
//
// The error is [tenants.Problems] if the files are wrong.
func Open(ctx context.Context, file string, opt Options) (*client.Client, error) {
	opt = opt.complete()
	read := tenants.Options{Env: opt.Env, Store: instance.CheckStore}
	snap, err := tenants.Load(file, read)
	if err != nil {
		return nil, err
	}
	d, err := newDoor(snap, opt)
	if err != nil {
		return nil, err
	}
	files, err := tenants.Watch(d.running, file, snap, read)
	if err != nil {
		_ = d.Close()
		return nil, err
	}
	d.policies = instance.NewReloader(files, snap, d.in.Admission.Apply, d.in.Metrics, opt.Log)
	d.start(ctx)
	return client.New(d), nil
}

// New opens a governor by a Config and tenants in code. [tenants.DefaultConfig] and [tenants.DefaultPool] have the
// product's defaults. The config needs no upstreams. [Apply] changes the policy later.
func New(ctx context.Context, cfg tenants.Config, list []tenants.Tenant, opt Options) (*client.Client, error) {
	snap, err := build(cfg, list)
	if err != nil {
		return nil, err
	}
	d, err := newDoor(snap, opt.complete())
	if err != nil {
		return nil, err
	}
	d.start(ctx)
	return client.New(d), nil
}

// Apply puts another policy in force as a whole, for a Client that New has returned. Calls in flight keep the one
// that they began with.
func Apply(c *client.Client, cfg tenants.Config, list []tenants.Tenant) error {
	snap, err := build(cfg, list)
	if err != nil {
		return err
	}
	return of(c).in.Admission.Apply(snap)
}

// build makes a snapshot of values. A policy has to have an upstream and keys, and this program calls its models
// itself and names its tenants.
func build(cfg tenants.Config, list []tenants.Tenant) (*tenants.Snapshot, error) {
	if len(cfg.Upstreams) == 0 {
		cfg.Upstreams = []tenants.Upstream{{Name: "program", BaseURL: "http://localhost"}}
	}
	return tenants.Build(cfg, keyed(list))
}

// keyed gives tenants that could not be called by anybody a key that nobody knows. Those that have teams need none.
func keyed(list []tenants.Tenant) []tenants.Tenant {
	list = slices.Clone(list)
	for i := range list {
		t := &list[i]
		above := slices.ContainsFunc(list, func(o tenants.Tenant) bool { return strings.HasPrefix(o.Name, t.Name+"/") })
		if len(t.Keys) == 0 && !above {
			t.Keys = []tenants.Key{{Hash: tenants.HashKey(rand.Text())}}
		}
	}
	return list
}

func (o Options) complete() Options {
	o.Log = cmp.Or(o.Log, slog.Default())
	if o.Env == nil {
		o.Env = os.Environ()
	}
	return o
}
