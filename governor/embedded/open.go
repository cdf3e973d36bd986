package embedded

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/llmgov/llmgov/federation/store"
	"github.com/llmgov/llmgov/governor/client"
	"github.com/llmgov/llmgov/internal/run/instance"
	"github.com/llmgov/llmgov/tenants"
)

// Governor is a governor in this process, with the Client that asks it. It is safe for concurrent use.
type Governor struct {
	*client.Client
	door *door
}

// Options are optional.
type Options struct {
	// Log has reloads, forgotten leases, usage that cannot be, and trouble with the store and the disk. nil is slog.Default().
	Log *slog.Logger
	// MaxHold is the longest time from a lease to its end. One that is older has expired: it is charged by estimate, and its context ends.
	// 0 is no bound.
	MaxHold time.Duration
	// Env is the environment that overrides settings and fills ${…} in files. nil is the process's.
	Env []string
}

// Open opens a governor by a config file and the policy files that it names, and follows them. With a shared store
// it waits until the store has answered, for at most a second or two, or until ctx ends. Shut the Governor down, or close it, at the end.
//
// The error is [tenants.Problems] if the files are wrong.
func Open(ctx context.Context, file string, opt Options) (*Governor, error) {
	opt = opt.complete()
	set := &instance.Tenants{}
	read := tenants.Options{Env: opt.Env, Named: true, Store: store.Check, Runtime: set.Of}
	snap, err := tenants.Load(file, read)
	if err != nil {
		return nil, err
	}
	d, err := newDoor(snap, opt, false)
	if err != nil {
		return nil, err
	}
	files, err := tenants.Watch(d.running, file, snap, read)
	if err != nil {
		return nil, errors.Join(err, d.end())
	}
	d.set = set
	d.policies = instance.NewReloader(files, snap, d.in.Admission.Apply, d.in.Metrics, opt.Log)
	return d.start(ctx, opt), nil
}

// New opens a governor by a Policy in code. [Governor.Apply] changes it later.
//
// Without a StateDir nothing is known of what the program used before it started: it is taken for nothing, so that
// the first calls find a pool that has been idle (its burst: 10 s of its rate, and all of the minute if one tenant has it alone).
func New(ctx context.Context, p Policy, opt Options) (*Governor, error) {
	opt = opt.complete()
	snap, err := p.build()
	if err != nil {
		return nil, err
	}
	d, err := newDoor(snap, opt, true)
	if err != nil {
		return nil, err
	}
	return d.start(ctx, opt), nil
}

// Apply puts another policy in force as a whole. Calls in flight keep the one
// that they began with. The policy of a Governor that was opened by files is that of the files.
func (g *Governor) Apply(p Policy) error {
	if g.door.policies != nil {
		return errors.New("embedded: this governor follows its config file: change that")
	}
	snap, err := p.build()
	if err != nil {
		return err
	}
	return g.door.in.Admission.Apply(snap)
}

// Metrics serves the metrics to Prometheus: the same as a gateway's.
func (g *Governor) Metrics() http.Handler { return g.door.in.Metrics.Handler() }

func (o Options) complete() Options {
	o.Log = cmp.Or(o.Log, slog.Default())
	if o.Env == nil {
		o.Env = os.Environ()
	}
	return o
}
