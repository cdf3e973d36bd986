package instance

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/llmgov/llmgov/internal/lib/atomicfile"
	"github.com/llmgov/llmgov/internal/lib/rounds"
	"github.com/llmgov/llmgov/internal/ops/admin"
	"github.com/llmgov/llmgov/tenants"
)

// documents is where all gateways of a store share texts.
type documents interface {
	Document(ctx context.Context, name string) (string, error)
	Replace(ctx context.Context, name, old, text string) (done bool, err error)
}

// overrides keeps what operators have laid over the files, and puts it in force until it ends. With a store all gateways have the same,
// as of a second ago; state_dir has it over restarts, and for when the store forgets.
type overrides struct {
	store documents // nil without
	file  string    // "" without a state_dir
	apply func([]tenants.Override) error
	// adopt has the files read with other tenants in place of some of theirs from now on, and reload reads them; nil where there are no files.
	adopt  func([]tenants.RuntimeTenant)
	reload func() error
	policy func() *tenants.Snapshot // in force
	log    *slog.Logger

	mu      sync.Mutex // held for one look or change at a time
	text    string
	said    document                // by the text
	kept    string                  // the text that is in the file
	live    []tenants.Override      // of these, what is in force
	adopted []tenants.RuntimeTenant // what adopt was last called with
	wrong   rounds.Errors           // of looks
}

const (
	overridesName = "overrides"
	overridesFile = "overrides.json"
	lookEvery     = time.Second
	// lookPatience is how long a store has to answer, and changePatience how long when somebody waits for a change.
	lookPatience   = time.Second
	changePatience = 5 * time.Second
	// mostOverrides and mostText, in bytes, bound what all gateways read again and again.
	mostOverrides = 1000
	mostText      = 4 << 20
	// mostTurns is how often a change is made anew because another one came in between.
	mostTurns = 10
)

// document is the text. Each change makes a later version, which wins over earlier ones of its history when a store that has forgotten is
// told again. Of two histories, such as that of another store, that of the store counts.
type document struct {
	Format  int    `json:"format"`
	History string `json:"history,omitempty"`
	Version int64  `json:"version"`
	tenants.AtRuntime
}

const documentFormat = 1

// decode reads a text; "" is that of version 0.
func decode(text string) (d document, err error) {
	if text == "" {
		return d, nil
	}
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		return d, err
	}
	if d.Format != documentFormat {
		return d, fmt.Errorf("they are of format %d, and this release reads %d", d.Format, documentFormat)
	}
	return d, nil
}

func newOverrides(dir string, apply func([]tenants.Override) error, log *slog.Logger) (*overrides, error) {
	o := &overrides{apply: apply, log: log, policy: func() *tenants.Snapshot { return &tenants.Snapshot{} }}
	if dir == "" {
		return o, nil
	}
	o.file = filepath.Join(dir, overridesFile)
	text, err := os.ReadFile(o.file)
	if errors.Is(err, fs.ErrNotExist) {
		return o, nil
	}
	if err == nil {
		o.kept = string(text)
		err = o.take(o.kept, time.Now())
	}
	if err != nil {
		return nil, fmt.Errorf("llmgov: state_dir: what was set at run time cannot be read: %w; mend or remove %s", err, o.file)
	}
	return o, nil
}

// AtRuntime reads what operators have set at run time and what has not ended, from a store or, if it is nil, from a state_dir.
func AtRuntime(ctx context.Context, store documents, dir string, now time.Time) (set tenants.AtRuntime, err error) {
	var text string
	if store != nil {
		text, err = store.Document(ctx, overridesName)
	} else {
		var data []byte
		data, err = os.ReadFile(filepath.Join(dir, overridesFile))
		text = string(data)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return set, err
	}
	d, err := decode(text)
	d.Overrides = liveOf(d.Overrides, now)
	return d.AtRuntime, err
}

// Tenants are those that were set at run time, for loads of the files. The zero value is ready for use.
type Tenants struct {
	list atomic.Pointer[[]tenants.RuntimeTenant]
}

// Of is for [tenants.Options]. The first load has those that state_dir keeps.
func (t *Tenants) Of(cfg *tenants.Config) []tenants.RuntimeTenant {
	if t.list.Load() == nil {
		var set tenants.AtRuntime
		if cfg.StateDir != "" {
			set, _ = AtRuntime(context.Background(), nil, cfg.StateDir, time.Now()) // an error is told by Open, which reads it too
		}
		t.list.Store(&set.Tenants)
	}
	return *t.list.Load()
}

// liveOf are the overrides that have not ended.
func liveOf(list []tenants.Override, now time.Time) []tenants.Override {
	return slices.DeleteFunc(slices.Clone(list), func(l tenants.Override) bool { return !l.Live(now) })
}

// follow tells how tenants are put in force, of those that are known by now as well.
func (o *overrides) follow(adopt func([]tenants.RuntimeTenant), reload func() error) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.adopt = adopt
	o.reload = reload
	return o.adoptLocked(o.said.Tenants)
}

// adoptLocked puts tenants in force, once: if that fails the files of this gateway are at fault, and whoever mends them puts both in force.
func (o *overrides) adoptLocked(list []tenants.RuntimeTenant) error {
	if o.adopt == nil || len(list)+len(o.adopted) == 0 || reflect.DeepEqual(list, o.adopted) {
		return nil
	}
	o.adopted = list
	o.adopt(list)
	return o.reload()
}

// tryLocked puts tenants in force that somebody has changed here, unless one does not fit that is in force or new.
func (o *overrides) tryLocked(list []tenants.RuntimeTenant) error {
	aside := o.policy().Aside()
	firm := slices.Clone(list)
	for i := range firm {
		firm[i].Firm = !slices.ContainsFunc(aside, func(t tenants.RuntimeTenant) bool {
			return t.Tenant == firm[i].Tenant && bytes.Equal(t.Policy, firm[i].Policy)
		})
	}
	o.adopted = list
	o.adopt(firm)
	err := o.reload()
	if err == nil {
		o.adopt(list)
	}
	return err
}

// Run follows the store and the ends of overrides until ctx ends.
func (o *overrides) Run(ctx context.Context) error {
	rounds.Every(ctx, lookEvery, func() { o.look(ctx) })
	return nil
}

// look puts in force what has changed.
func (o *overrides) look(ctx context.Context) {
	o.mu.Lock()
	defer o.mu.Unlock()
	err := o.lookLocked(ctx)
	for _, what := range o.policy().Unfit() {
		err = errors.Join(err, errors.New(what))
	}
	if o.wrong.New(err) && ctx.Err() == nil {
		o.log.Warn("what was set at run time is not as it should be", "error", err.Error())
	}
}

func (o *overrides) lookLocked(ctx context.Context) error {
	if o.store == nil {
		return errors.Join(o.enforce(time.Now()), o.keep())
	}
	ctx, cancel := context.WithTimeout(ctx, lookPatience)
	defer cancel()
	text, err := o.store.Document(ctx, overridesName)
	if err == nil {
		err = o.take(text, time.Now())
	}
	if err == nil && text != o.text { // it has forgotten the later one
		_, err = o.store.Replace(ctx, overridesName, text, o.text)
	}
	return errors.Join(err, o.enforce(time.Now()), o.keep())
}

// take takes over a text and puts it in force, unless a store that has forgotten it says none, or an earlier version of the same history.
func (o *overrides) take(text string, now time.Time) error {
	if text == o.text || text == "" {
		return nil
	}
	d, err := decode(text)
	if err != nil || d.History == o.said.History && d.Version < o.said.Version {
		return err
	}
	before, said := o.text, o.said
	o.text, o.said = text, d
	if err := o.overlay(now); err != nil {
		o.text, o.said = before, said
		return err
	}
	return o.adoptLocked(d.Tenants)
}

// keep keeps the text for a later process.
func (o *overrides) keep() error {
	if o.file == "" || o.kept == o.text {
		return nil
	}
	if err := atomicfile.Replace(o.file, []byte(o.text)); err != nil {
		return fmt.Errorf("they are in force, but state_dir cannot keep them over a restart: %w", err)
	}
	o.kept = o.text
	return nil
}

// enforce puts in force what has not ended.
func (o *overrides) enforce(now time.Time) error {
	return errors.Join(o.overlay(now), o.adoptLocked(o.said.Tenants))
}

// overlay lays those overrides over the policy that have not ended.
func (o *overrides) overlay(now time.Time) error {
	live := liveOf(o.said.Overrides, now)
	if reflect.DeepEqual(live, o.live) {
		return nil
	}
	if err := o.apply(live); err != nil {
		return err
	}
	o.live = live
	return nil
}

// InForce implements admin.Overrides.
func (o *overrides) InForce() tenants.AtRuntime {
	o.mu.Lock()
	defer o.mu.Unlock()
	return tenants.AtRuntime{Overrides: o.live, Tenants: o.said.Tenants}
}

// Change implements admin.Overrides.
func (o *overrides) Change(ctx context.Context, edit func(*tenants.AtRuntime) error) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, changePatience)
	defer cancel()
	for range mostTurns {
		now := time.Now()
		old := o.text
		if o.store != nil {
			var err error
			if old, err = o.store.Document(ctx, overridesName); err != nil {
				return fmt.Errorf("%w: %w", admin.ErrStore, err)
			}
			if err := o.take(old, now); err != nil {
				return err
			}
		}
		history := o.said.History
		if o.store == nil || history == "" { // what was changed without the store must not win over what its gateways did meanwhile
			history = rand.Text()
		}
		next := tenants.AtRuntime{Overrides: liveOf(o.said.Overrides, now), Tenants: slices.Clone(o.said.Tenants)}
		if err := edit(&next); err != nil {
			return err
		}
		switch {
		case len(next.Overrides) > max(mostOverrides, len(o.said.Overrides)) || len(next.Tenants) > max(mostOverrides, len(o.said.Tenants)):
			return fmt.Errorf("there are %d of these, and may be no more; remove some, or change the policy files", mostOverrides)
		case len(next.Tenants) > 0 && o.adopt == nil:
			return admin.ErrNoFiles
		}
		text, err := json.Marshal(document{documentFormat, history, o.said.Version + 1, next})
		switch {
		case err == nil && len(text) > max(mostText, len(o.text)): // less can always be set
			return fmt.Errorf("all that is set at run time would be longer than %d bytes, which every gateway reads again and again; remove some, or change the policy files", mostText)
		case err == nil && o.adopt != nil && !reflect.DeepEqual(next.Tenants, o.said.Tenants):
			err = o.tryLocked(next.Tenants)
		}
		if err != nil {
			if before := o.adoptLocked(o.said.Tenants); before != nil {
				return before // so the change is not at fault
			}
			return err
		}
		done := o.store == nil
		if !done {
			done, err = o.store.Replace(ctx, overridesName, old, string(text))
		}
		if err != nil {
			return errors.Join(fmt.Errorf("%w: %w", admin.ErrStore, err), o.adoptLocked(o.said.Tenants))
		}
		if !done {
			continue
		}
		if err := o.take(string(text), now); err != nil {
			return err
		}
		return o.keep()
	}
	return errors.New("others change overrides all the time; try again")
}
