package instance

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/internal/ops/admin"
	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/tenants"
)

// oneText is a store of one text.
type oneText struct {
	mu   sync.Mutex
	text string
	err  error
	meet func() // called once, before a text is replaced; of the test's goroutine alone
}

func (s *oneText) is(text string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text, s.err = text, err
}

func (s *oneText) Document(context.Context, string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text, s.err
}

func (s *oneText) Replace(_ context.Context, _, old, text string) (bool, error) {
	if meet := s.meet; meet != nil {
		s.meet = nil
		meet()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil || s.text != old {
		return false, s.err
	}
	s.text = text
	return true, nil
}

// node is a gateway, as far as its overrides are concerned.
type node struct {
	*overrides
	inForce string
	refuses error
}

func newNode(t *testing.T, s documents, dir string) *node {
	t.Helper()
	n := &node{}
	n.overrides = testkit.Must(newOverrides(dir, func(list []tenants.Override) error {
		if n.refuses != nil {
			return n.refuses
		}
		n.inForce = ""
		for _, o := range list {
			n.inForce += fmt.Sprintf("%s %d;", o.Tenant, *o.TPM)
		}
		return nil
	}, slog.New(slog.DiscardHandler)))(t)
	n.store = s
	return n
}

// set sets an override of a tenant.
func (n *node) set(tenant string, tpm int64, until *time.Time) error {
	return n.Change(context.Background(), func(set *tenants.AtRuntime) error {
		set.Overrides = append(set.Overrides, tenants.Override{Tenant: tenant, TPM: &tpm, Until: until})
		return nil
	})
}

// TestOverrides: all gateways of a store have an override within two seconds and until its end, over restarts and the store's forgetting.
func TestOverrides(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &oneText{}
		dir := t.TempDir()
		ctx, end := context.WithCancel(t.Context())
		a, b := newNode(t, store, dir), newNode(t, store, "")
		done := make(chan error, 2)
		go func() { done <- a.Run(ctx) }()
		go func() { done <- b.Run(ctx) }()
		after := func(d time.Duration, what, want string) {
			t.Helper()
			time.Sleep(d)
			synctest.Wait()
			if a.inForce != want || b.inForce != want {
				t.Errorf("%s: in force are %q and %q, want %q", what, a.inForce, b.inForce, want)
			}
		}
		soon := time.Now().Add(time.Minute)
		testkit.OK(t, a.set("acme", 5, &soon))
		if a.inForce != "acme 5;" {
			t.Errorf("it answers before it is in force: %q", a.inForce)
		}
		store.meet = func() { testkit.OK(t, a.set("bob", 6, nil)) }
		testkit.OK(t, b.set("carol", 7, nil)) // at the same time
		after(2*time.Second, "three of two gateways", "acme 5;bob 6;carol 7;")
		store.is("", nil)
		after(2*time.Second, "the store has forgotten", "acme 5;bob 6;carol 7;")
		if text, _ := store.Document(ctx, ""); text == "" {
			t.Error("the store is not told again")
		}
		store.is("", errors.New("lost"))
		if err := b.set("dora", 8, nil); !errors.Is(err, admin.ErrStore) {
			t.Errorf("without the store: %v", err)
		}
		after(57*time.Second, "the end without the store", "bob 6;carol 7;")
		restarted := newNode(t, store, dir)
		if restarted.inForce != "bob 6;carol 7;" {
			t.Errorf("after a restart without the store: %q", restarted.inForce)
		}
		store.is(`{"format":2}`, nil)
		after(2*time.Second, "a text of another release", "bob 6;carol 7;")
		store.is(fmt.Sprintf(`{"format":1,"history":%q,"version":2,"overrides":[{"tenant":"acme","tpm":9}]}`, a.said.History), nil)
		after(2*time.Second, "an earlier version, by a gateway that had not heard of this one", "bob 6;carol 7;")
		if text, _ := store.Document(ctx, ""); text != a.text {
			t.Errorf("the store has %s, want the later version back", text)
		}
		store.is(`{"format":1,"history":"other","version":1,"overrides":[{"tenant":"acme","tpm":9}]}`, nil)
		after(2*time.Second, "the history of another store, whatever the version", "acme 9;")
		store.is(`{"format":1,"history":"other","version":9,"overrides":[]}`, nil)
		after(2*time.Second, "cleared elsewhere", "")
		alone := newNode(t, nil, t.TempDir())
		for i := range 20 {
			testkit.OK(t, alone.set("old", int64(i+1), nil))
		}
		alone.store = store
		alone.look(ctx)
		after(2*time.Second, "a gateway that was alone before joins", "")
		if alone.inForce != "" {
			t.Errorf("a gateway that joins brings its own: %q", alone.inForce)
		}
		restarted.look(ctx)
		if restarted.inForce != "" {
			t.Errorf("the store counts, not the folder: %q", restarted.inForce)
		}
		end()
		testkit.OK(t, errors.Join(<-done, <-done))
	})
}

// TestOverrides_Alone: a gateway without a store keeps overrides in its folder, and refuses what it cannot keep or put in force.
func TestOverrides_Alone(t *testing.T) {
	dir := t.TempDir()
	n := newNode(t, nil, dir)
	testkit.OK(t, n.set("acme", 5, nil))
	again := newNode(t, nil, dir)
	if again.inForce != "acme 5;" || len(again.InForce().Overrides) != 1 {
		t.Errorf("after a restart: %q", again.inForce)
	}
	n.file = dir + "/none/overrides.json"
	if err := n.set("bob", 6, nil); err == nil || n.inForce != "acme 5;bob 6;" {
		t.Errorf("not kept: %v, in force is %q", err, n.inForce)
	}
	testkit.OK(t, os.Mkdir(dir+"/none", 0o700))
	n.look(t.Context())
	if later := newNode(t, nil, dir+"/none"); later.inForce != n.inForce {
		t.Errorf("what could not be kept at once is never: %q", later.inForce)
	}
	wrong := errors.New("no")
	if err := n.Change(t.Context(), func(*tenants.AtRuntime) error { return wrong }); err != wrong || len(n.InForce().Overrides) != 2 {
		t.Errorf("a change that is none: %v, %v", err, n.InForce().Overrides)
	}
	n.refuses = wrong
	if err := n.set("carol", 7, nil); err == nil || strings.Contains(n.inForce, "carol") || len(n.InForce().Overrides) != 2 {
		t.Errorf("what cannot be in force: %v, %v", err, n.InForce().Overrides)
	}
}

// TestRuntimeTenants: tenants that are set at one gateway are read by all of a store, over restarts, and what the files refuse is taken back.
func TestRuntimeTenants(t *testing.T) {
	store := &oneText{}
	dir := t.TempDir()
	a, b := newNode(t, store, dir), newNode(t, store, "")
	var read [2]string // by each gateway
	bad := errors.New("invalid")
	follow := func(n *node, into *string) error {
		var adopted []tenants.RuntimeTenant
		return n.follow(func(list []tenants.RuntimeTenant) { adopted = list }, func() error {
			*into = ""
			for _, one := range adopted {
				*into += one.Tenant + string(one.Policy)
				if one.Firm && strings.Contains(string(one.Policy), "bad") {
					return bad
				}
			}
			return nil
		})
	}
	testkit.OK(t, errors.Join(follow(a, &read[0]), follow(b, &read[1])))
	set := func(n *node, policy string) error {
		return n.Change(t.Context(), func(set *tenants.AtRuntime) error {
			set.Tenants = nil
			if policy != "" {
				set.Tenants = []tenants.RuntimeTenant{{Tenant: "acme", Policy: []byte(policy)}}
			}
			return nil
		})
	}
	check := func(what, want string) {
		t.Helper()
		a.look(t.Context())
		b.look(t.Context())
		if read != [2]string{want, want} {
			t.Errorf("%s: read are %q, want %q", what, read, want)
		}
	}
	testkit.OK(t, set(b, `{"rpm":1}`))
	check("set", `acme{"rpm":1}`)
	if err := set(a, `{"bad":1}`); !errors.Is(err, bad) {
		t.Errorf("what the files refuse: %v", err)
	}
	check("refused", `acme{"rpm":1}`)
	store.is(store.text, errors.New("lost"))
	if err := set(a, `{"rpm":2}`); !errors.Is(err, admin.ErrStore) {
		t.Errorf("without the store: %v", err)
	}
	store.is(store.text, nil)
	check("not kept", `acme{"rpm":1}`)
	testkit.OK(t, a.set("bob", 5, nil)) // an override leaves them
	again := newNode(t, nil, dir)
	read[0] = ""
	testkit.OK(t, follow(again, &read[0]))
	check("after a restart", `acme{"rpm":1}`)
	kept := testkit.Must(AtRuntime(t.Context(), nil, dir, time.Now()))(t)
	shared := testkit.Must(AtRuntime(t.Context(), store, "", time.Now()))(t)
	if len(kept.Tenants) != 1 || len(shared.Tenants) != 1 || len(shared.Overrides) != 1 {
		t.Errorf("whoever only looks sees %v and %v", kept, shared)
	}
	testkit.OK(t, set(a, ""))
	check("cleared", "")
	lone, reads := newNode(t, store, ""), 0 // whose files lack a tier
	testkit.OK(t, errors.Join(lone.follow(func([]tenants.RuntimeTenant) {}, func() error { reads++; return bad }), set(a, `{"tier":"new"}`), b.set("eve", 7, nil)))
	for range 3 {
		lone.look(t.Context())
	}
	testkit.OK(t, lone.set("joe", 9, nil))
	if lone.look(t.Context()); reads != 1 || lone.inForce != "bob 5;eve 7;joe 9;" {
		t.Errorf("a gateway that cannot have a tenant has read its files %d times, want once, and has %s in force", reads, lone.inForce)
	}
	long := func(n *node, size int) error {
		return n.Change(t.Context(), func(set *tenants.AtRuntime) error {
			set.Tenants[0].Why = strings.Repeat("x", size)
			return nil
		})
	}
	if err := long(a, mostText); err == nil || !strings.Contains(err.Error(), "longer than") {
		t.Errorf("a text without bound: %v", err)
	}
	text, _ := store.Document(t.Context(), "")
	store.is(strings.Replace(text, `"tenant":"acme"`, `"tenant":"acme","why":"`+strings.Repeat("x", mostText)+`"`, 1), nil)
	larger := newNode(t, store, "") // by a release that allows more
	if err := errors.Join(follow(larger, new(string)), long(larger, mostText-10)); err != nil {
		t.Errorf("less than was there, and still too much: %v", err)
	}
	if err := long(larger, mostText); err == nil {
		t.Error("more than was there, which is too much already")
	}
	testkit.OK(t, errors.Join(set(larger, ""), set(a, `{}`), set(newNode(t, store, ""), ""))) // the last has no files to read
	check("cleared without files", "")
	if err := set(newNode(t, nil, ""), `{}`); !errors.Is(err, admin.ErrNoFiles) {
		t.Errorf("without files: %v", err)
	}
}
