package tenants

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/llmgov/llmgov/internal/testkit"
)

// watchPatience is for what takes a tenth of a second on an idle machine.
const watchPatience = time.Minute

// site is a folder with a config and policies that is watched.
type site struct {
	t   *testing.T
	dir string
	*Watcher
	end   context.CancelFunc
	looks chan struct{} // those that found nothing new
}

// byEvents never looks by itself, so that what is found was found by an event; byLooking gets no events.
var (
	byEvents  = knobs{poll: time.Hour, settle: 10 * time.Millisecond, events: true}
	byLooking = knobs{poll: 20 * time.Millisecond, settle: 10 * time.Millisecond}
)

// onBoth runs a test with events alone and with looks alone.
func onBoth(t *testing.T, test func(t *testing.T, k knobs)) {
	t.Run("by events", func(t *testing.T) { test(t, byEvents) })
	t.Run("by looking", func(t *testing.T) { test(t, byLooking) })
}

// newSite writes the good files, lets prepare change them, and watches.
func newSite(t *testing.T, k knobs, prepare func(s *site)) *site {
	t.Helper()
	s := &site{t: t, dir: t.TempDir()}
	s.write("llmgov.yaml", goodConfig)
	s.write("tenants/a.yaml", policyOf("acme", 1))
	if prepare != nil {
		prepare(s)
	}
	s.watch(k)
	return s
}

func (s *site) watch(k knobs) {
	s.t.Helper()
	from := testkit.Must(Load(s.path("llmgov.yaml"), Options{}))(s.t)
	l := testkit.Must(newLoader(s.path("llmgov.yaml"), Options{}))(s.t)
	ctx, end := context.WithCancel(context.Background())
	s.looks = make(chan struct{}, 1)
	also := k.looked
	k.looked = func(same bool) {
		if also != nil {
			also(same)
		}
		if !same {
			return
		}
		select {
		case s.looks <- struct{}{}:
		default: // nobody has waited for the one before
		}
	}
	s.Watcher = watch(ctx, l, from, k)
	s.end = end
	s.t.Cleanup(func() {
		end()
		for range s.Events() { //nolint:revive // until it is closed
		}
	})
	s.same() // the first look is over
}

func policyOf(tenant string, rpm int) string {
	return fmt.Sprintf("tenants:\n  %s: {rpm: %d, keys: [\"sha256:%064x\"]}\n", tenant, rpm, tenant)
}

func (s *site) path(name string) string { return filepath.Join(s.dir, filepath.FromSlash(name)) }

func (s *site) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// write puts a whole file in its place at once; overwrite changes the file that is there.
func (s *site) write(name, text string) {
	s.t.Helper()
	s.overwrite(".new/file", text)
	s.must(os.MkdirAll(filepath.Dir(s.path(name)), 0o755))
	s.rename(".new/file", name)
}

func (s *site) overwrite(name, text string) {
	s.t.Helper()
	s.must(os.MkdirAll(filepath.Dir(s.path(name)), 0o755))
	s.must(os.WriteFile(s.path(name), []byte(text), 0o644))
}

func (s *site) rename(from, to string) {
	s.t.Helper()
	s.must(os.Rename(s.path(from), s.path(to)))
}

func (s *site) remove(name string) {
	s.t.Helper()
	s.must(os.RemoveAll(s.path(name)))
}

// next is the next event.
func (s *site) next() Event {
	s.t.Helper()
	select {
	case ev, open := <-s.Events():
		if !open {
			s.t.Fatal("the watch has ended")
		}
		return ev
	case <-time.After(watchPatience):
		s.t.Fatalf("no event within %s", watchPatience)
	}
	return Event{}
}

// wants waits until the files say that the tenants are these, written name:rpm. What is found on the way may only be
// problems: whole or nothing.
func (s *site) wants(list string) {
	s.t.Helper()
	for {
		ev := s.next()
		if ev.Err != nil {
			s.t.Logf("on the way: %v", ev.Err)
			continue
		}
		if got := tenantsOf(ev.Snapshot); got != list {
			s.t.Fatalf("tenants %q, want %q", got, list)
		}
		return
	}
}

func tenantsOf(s *Snapshot) string {
	var out []string
	for _, t := range s.Tenants() {
		out = append(out, fmt.Sprintf("%s:%d", t.Name, t.RPM))
	}
	return strings.Join(out, " ")
}

// bad waits for problems that begin so.
func (s *site) bad(text string) {
	s.t.Helper()
	if ev := s.next(); ev.Err == nil || !strings.Contains(ev.Err.Error(), text) {
		s.t.Fatalf("got %+v, want problems with %q", ev, text)
	}
}

// quiet waits until the files were looked at so often and nothing new was found: what is wrong by then is known.
func (s *site) quiet(times int) {
	s.t.Helper()
	for range times {
		select {
		case <-s.looks: // of before
		default:
		}
		_, _ = s.Reload() // where nothing happens, nobody looks
		select {
		case <-s.looks:
		case <-time.After(watchPatience):
			s.t.Fatalf("no look within %s", watchPatience)
		}
	}
	select {
	case ev := <-s.Events():
		s.t.Fatalf("nothing has changed, but there is %+v", ev)
	default:
	}
}

// same looks at the files and checks that nothing is to be reported.
func (s *site) same() {
	s.t.Helper()
	testkit.Must(s.Reload())(s.t)
	select {
	case ev := <-s.Events():
		s.t.Fatalf("nothing has changed, but there is %+v", ev)
	default:
	}
}
