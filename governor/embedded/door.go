package embedded

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/llmgov/llmgov/governor/client"
	"github.com/llmgov/llmgov/internal/admin"
	"github.com/llmgov/llmgov/internal/inprocess"
	"github.com/llmgov/llmgov/internal/instance"
	"github.com/llmgov/llmgov/tenants"
)

// door is the governor of a Client, with everything that keeps it going.
type door struct {
	*inprocess.Door
	in       *instance.Instance
	log      *slog.Logger
	policies *instance.Reloader // nil without files

	running context.Context // ends when the parts have to
	end     context.CancelFunc
	parts   errgroup.Group

	closeOnce sync.Once
	closeErr  error // guarded by closeOnce
	adminOnce sync.Once
	admin     *admin.API // guarded by adminOnce
}

func newDoor(snap *tenants.Snapshot, opt Options) (*door, error) {
	in, err := instance.Open(instance.Options{Snapshot: snap, Log: opt.Log})
	if err != nil {
		return nil, err
	}
	d := &door{Door: inprocess.New(in.Admission), in: in, log: opt.Log}
	d.running, d.end = context.WithCancel(context.Background())
	return d, nil
}

// start lets the parts run, and waits for the first answer of the store.
func (d *door) start(ctx context.Context) {
	d.parts.Go(func() error { return d.in.Run(d.running) })
	if d.policies != nil {
		d.parts.Go(func() error { return d.policies.Run(d.running, nil) })
	}
	d.in.Await(ctx)
}

// of is the door of a Client that this package has returned.
func of(c *client.Client) *door {
	d, ok := c.Door().(*door)
	if !ok {
		panic("embedded: the Client's governor is not in this process")
	}
	return d
}

// Metrics serves a Client's metrics to Prometheus: the same as a gateway's.
func Metrics(c *client.Client) http.Handler { return of(c).in.Metrics.Handler() }

// errClosed is the cause with which Close ends calls.
var errClosed = errors.New("embedded: the client was closed")

// Close implements client.Door. It refuses calls that wait, and waits for those that run, as long as the
// policy's timeouts.drain says; then it ends their contexts, and waits for a second more.
func (d *door) Close() error {
	d.closeOnce.Do(func() { d.closeErr = d.close() })
	return d.closeErr
}

func (d *door) close() error {
	d.in.Governor.Drain()
	snap := d.in.Admission.Policy().Snapshot
	if !d.idle(snap.Config().Timeouts.Drain) {
		for _, p := range snap.Pools() {
			d.in.Governor.Interrupt(p.Name, errClosed)
		}
		d.idle(time.Second)
	}
	d.end()
	return errors.Join(d.parts.Wait(), d.in.Close())
}

// idle waits until no call runs, at most for the patience.
func (d *door) idle(patience time.Duration) bool {
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	late := time.After(patience)
	for {
		if running, _ := d.in.Governor.Leases(); running == 0 {
			return true
		}
		select {
		case <-look.C:
		case <-late:
			return false
		}
	}
}
