package embedded

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/llmgov/llmgov/governor/client/doors"
	"github.com/llmgov/llmgov/internal/doors/inprocess"
	"github.com/llmgov/llmgov/internal/ops/admin"
	"github.com/llmgov/llmgov/internal/run/instance"
	"github.com/llmgov/llmgov/tenants"
)

// door is the governor of a Client, with everything that keeps it going.
type door struct {
	*inprocess.Door
	in       *instance.Instance
	log      *slog.Logger
	policies *instance.Reloader // nil without files
	set      *instance.Tenants  // with which these are loaded

	running context.Context // ends when the parts have to
	stop    context.CancelFunc
	parts   errgroup.Group

	endOnce   sync.Once
	endErr    error // guarded by endOnce
	adminOnce sync.Once
	admin     *admin.API // guarded by adminOnce
}

func newDoor(snap *tenants.Snapshot, opt Options, fresh bool) (*door, error) {
	in, err := instance.Open(instance.Options{Snapshot: snap, Log: opt.Log, Fresh: fresh})
	if err != nil {
		return nil, err
	}
	d := &door{Door: inprocess.New(in.Admission), in: in, log: opt.Log}
	d.running, d.stop = context.WithCancel(context.Background())
	return d, nil
}

// start lets the parts run, and waits for the first answer of the store.
func (d *door) start(ctx context.Context, opt Options) *Governor {
	d.parts.Go(func() error { return d.in.Run(d.running) })
	if d.policies != nil {
		d.parts.Go(func() error { return d.policies.Run(d.running, nil) })
		d.in.Follow(d.running, d.set, d.policies)
	}
	d.in.Await(ctx)
	return &Governor{doors.Open(d, doors.Options{Log: opt.Log, MaxHold: opt.MaxHold}), d}
}

// Shutdown implements doors.Door.
func (d *door) Shutdown(ctx context.Context) error {
	d.in.Governor.Drain()
	running := func(running, _ int) bool { return running > 0 }
	d.outlast(func(_, waiting int) bool { return waiting > 0 }, context.Background()) // they are leaving, before one gets a slot
	var late error
	if !d.outlast(running, ctx) {
		late = ctx.Err()
		for _, p := range d.in.Admission.Policy().Snapshot.Pools() {
			d.in.Governor.Interrupt(p.Name, doors.Closed)
		}
		soon, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		d.outlast(running, soon)
	}
	if err := d.end(); err != nil {
		return err
	}
	return late
}

// end ends the parts.
func (d *door) end() error {
	d.endOnce.Do(func() {
		d.stop()
		d.endErr = errors.Join(d.parts.Wait(), d.in.Close())
	})
	return d.endErr
}

// outlast waits while there are calls, of all that run and wait, or until ctx ends, and then reports false.
func (d *door) outlast(are func(running, waiting int) bool, ctx context.Context) bool {
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for {
		if !are(d.in.Governor.Leases()) {
			return true
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return false
		}
	}
}
