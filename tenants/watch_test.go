package tenants

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/llmgov/llmgov/internal/test/testkit"
	"go.uber.org/goleak"
)

// TestWatch_Saves replaces a policy file in each of the ways that people and programs do.
func TestWatch_Saves(t *testing.T) {
	for what, save := range map[string]func(s *site, text string){
		"in place": func(s *site, text string) { s.overwrite("tenants/a.yaml", text) },
		"atomic rename": func(s *site, text string) {
			s.overwrite("tenants/.a.yaml.tmp", text)
			s.rename("tenants/.a.yaml.tmp", "tenants/a.yaml")
		},
		"rename from elsewhere": func(s *site, text string) {
			s.overwrite("build/a.yaml", text)
			s.rename("build/a.yaml", "tenants/a.yaml")
		},
		"as vim does": func(s *site, text string) { // a probe, a backup by rename, a new file, the backup goes
			s.overwrite("tenants/4913", "")
			s.remove("tenants/4913")
			s.rename("tenants/a.yaml", "tenants/a.yaml~")
			s.overwrite("tenants/a.yaml", text)
			s.remove("tenants/a.yaml~")
		},
		"as sed -i does": func(s *site, text string) {
			s.overwrite("tenants/sedX1y2Z3", text)
			s.must(os.Chmod(s.path("tenants/sedX1y2Z3"), 0o600))
			s.rename("tenants/sedX1y2Z3", "tenants/a.yaml")
		},
		"rm and create": func(s *site, text string) {
			s.remove("tenants/a.yaml")
			s.overwrite("tenants/a.yaml", text)
		},
		"in two writes": func(s *site, text string) {
			f, err := os.Create(s.path("tenants/a.yaml"))
			s.must(err)
			_, err = f.WriteString(text[:20])
			s.must(err)
			_, err = f.WriteString(text[20:])
			s.must(err)
			s.must(f.Close())
		},
	} {
		t.Run(what, func(t *testing.T) {
			onBoth(t, func(t *testing.T, k knobs) {
				s := newSite(t, k, nil)
				for rpm := 2; rpm < 5; rpm++ { // also the next time, and the time after
					save(s, policyOf("acme", rpm))
					s.wants(fmt.Sprintf("acme:%d", rpm))
				}
				s.same()
			})
		})
	}
}

// TestWatch_ConfigMap swaps the ..data link, as a kubelet does.
func TestWatch_ConfigMap(t *testing.T) {
	onBoth(t, func(t *testing.T, k knobs) {
		version := func(s *site, name string, rpm int) {
			s.write(name+"/llmgov.yaml", goodConfig+"policies: [a.yaml]\n")
			s.write(name+"/a.yaml", policyOf("acme", rpm))
		}
		s := newSite(t, k, func(s *site) {
			s.remove("llmgov.yaml")
			s.remove("tenants")
			version(s, "..2026_01", 1)
			s.must(os.Symlink("..2026_01", s.path("..data")))
			s.must(os.Symlink(filepath.Join("..data", "llmgov.yaml"), s.path("llmgov.yaml")))
			s.must(os.Symlink(filepath.Join("..data", "a.yaml"), s.path("a.yaml")))
		})
		for i := 2; i < 4; i++ {
			name := fmt.Sprintf("..2026_%02d", i)
			version(s, name, i)
			s.must(os.Symlink(name, s.path("..data_tmp")))
			s.rename("..data_tmp", "..data")
			s.remove(fmt.Sprintf("..2026_%02d", i-1))
			s.wants(fmt.Sprintf("acme:%d", i))
		}
	})
}

// TestWatch_Files adds, renames and removes policy files, and their folder.
func TestWatch_Files(t *testing.T) {
	onBoth(t, func(t *testing.T, k knobs) {
		s := newSite(t, k, nil)
		s.write("tenants/b.yaml", policyOf("beta", 5))
		s.wants("acme:1 beta:5")
		s.rename("tenants/b.yaml", "tenants/b.off")
		s.wants("acme:1")
		s.rename("tenants/b.off", "tenants/c.yaml")
		s.wants("acme:1 beta:5")
		s.rename("tenants/c.yaml", "tenants/d.yaml") // says the same, elsewhere
		s.wants("acme:1 beta:5")
		s.remove("tenants/d.yaml")
		s.wants("acme:1")
		s.remove("tenants/a.yaml")
		s.bad("matches no file")
		s.quiet(2) // the folder is empty, and still one to follow
		s.write("tenants/a.yaml", policyOf("acme", 2))
		s.wants("acme:2")
		s.remove("tenants")
		s.bad("matches no file")
		s.quiet(2)
		s.write("tenants/a.yaml", policyOf("acme", 3)) // another folder of that name
		s.wants("acme:3")
		s.write("tenants/a.yaml", policyOf("acme", 4))
		s.wants("acme:4")
	})
}

// TestWatch_Config changes the config: where policies lie, and the config itself.
func TestWatch_Config(t *testing.T) {
	onBoth(t, func(t *testing.T, k knobs) {
		s := newSite(t, k, nil)
		s.write("other/z.yaml", policyOf("zoe", 7))
		s.write("llmgov.yaml", goodConfig+"policies: [other/*.yaml]\n")
		s.wants("zoe:7")
		s.write("other/z.yaml", policyOf("zoe", 8)) // followed from now on
		s.wants("zoe:8")
		s.remove("llmgov.yaml")
		s.bad("cannot read config")
		s.write("llmgov.yaml", goodConfig)
		s.wants("acme:1")
	})
}

// TestWatch_Bad reports a bad file once, keeps quiet about it, and reports that it is good again even when it says what
// it did before.
func TestWatch_Bad(t *testing.T) {
	onBoth(t, func(t *testing.T, k knobs) {
		s := newSite(t, k, nil)
		s.write("tenants/a.yaml", "tenants: {acme: {rmp: 1}}\n")
		s.bad(`unknown key "rmp"; did you mean "rpm"?`)
		for range 5 {
			if _, err := s.Reload(); err == nil || !strings.Contains(err.Error(), "rmp") {
				t.Errorf("Reload of a bad file: %v", err)
			}
		}
		s.quiet(5)
		s.write("tenants/a.yaml", policyOf("acme", 1))
		if ev := s.next(); ev.Err != nil || tenantsOf(ev.Snapshot) != "acme:1" {
			t.Errorf("after mending: %+v", ev)
		}
	})
}

// TestWatch_Nothing saves the same again, and files that are none of it.
func TestWatch_Nothing(t *testing.T) {
	onBoth(t, func(t *testing.T, k knobs) {
		s := newSite(t, k, nil)
		s.write("tenants/a.yaml", policyOf("acme", 1))
		s.must(os.Chtimes(s.path("tenants/a.yaml"), time.Now(), time.Now().Add(time.Hour)))
		s.write("tenants/.a.yaml.swp", "x")
		s.write("tenants/notes.txt", "x")
		s.write("new/a.yaml", policyOf("acme", 9))
		s.same()
		s.quiet(3)
		s.write("tenants/a.yaml", "# why\n"+policyOf("acme", 1)) // places move, so this is news
		ev := s.next()
		if ev.Err != nil || ev.Snapshot.Tenants()[0].Source[len(s.dir):] != "/tenants/a.yaml:3:3" {
			t.Errorf("after a comment: %+v", ev)
		}
	})
}

// TestWatch_Settles changes two files of which the first is nothing without the second, and does so between two looks:
// half a change is no event.
func TestWatch_Settles(t *testing.T) {
	onBoth(t, func(t *testing.T, k knobs) {
		var s *site
		second := make(chan struct{}, 1)
		k.looked = func(same bool) {
			if same {
				return
			}
			select {
			case <-second:
				s.write("tenants/b.yaml", "tiers: {pro: {rpm: 7}}\n")
			default:
			}
		}
		s = newSite(t, k, nil)
		second <- struct{}{}
		s.write("tenants/a.yaml", strings.Replace(policyOf("acme", 1), "rpm: 1", "tier: pro", 1))
		if ev := s.next(); ev.Err != nil || tenantsOf(ev.Snapshot) != "acme:7" {
			t.Errorf("first %+v", ev)
		}
	})
}

// TestWatch_Busy loads a file in the end that never stops changing.
func TestWatch_Busy(t *testing.T) {
	k := byLooking
	n := 1
	var s *site
	ready := make(chan struct{})
	k.looked = func(same bool) {
		if !same {
			<-ready
			n++
			s.overwrite("tenants/a.yaml", policyOf("acme", n))
		}
	}
	s = newSite(t, k, nil)
	close(ready)
	s.write("tenants/a.yaml", policyOf("acme", 1000))
	if ev := s.next(); ev.Err != nil || !strings.HasPrefix(tenantsOf(ev.Snapshot), "acme:") {
		t.Errorf("first %+v", ev)
	}
}

// TestWatch_Since reports first what has changed since the snapshot in force was loaded, and reads nothing else again; a second watch
// from the same snapshot reads all.
func TestWatch_Since(t *testing.T) {
	s := newSite(t, byEvents, func(s *site) { s.write("tenants/b.yaml", "tenants: {bob: {rpm: 7, keys: ["+key2+"]}}\n") })
	from := testkit.Must(Load(s.path("llmgov.yaml"), Options{}))(t)
	s.write("tenants/a.yaml", policyOf("acme", 2))
	l := from.loaded.loader.Load()
	at := l.show(l.config)
	read := map[string]*Tenant{}
	for name, file := range l.seen {
		if file.tenants != nil {
			read[name] = &file.tenants[0]
		}
	}
	for again := range 2 {
		ctx, end := context.WithCancel(t.Context())
		second := &site{t: t, dir: s.dir, Watcher: testkit.Must(Watch(ctx, at, from, Options{}))(t), end: end}
		second.wants("acme:2 bob:7")
		end()
		for range second.Events() {
			t.Error("an event after the end")
		}
		for name, file := range l.seen {
			if again == 0 && file.tenants != nil && (&file.tenants[0] == read[name]) != (file.tenants[0].Name == "bob") {
				t.Errorf("%s was read again, or not", name)
			}
		}
	}
}

// TestWatch_NotTaken leaves events lie: the newest snapshot is there for who comes, and what is wrong since.
func TestWatch_NotTaken(t *testing.T) {
	s := newSite(t, byLooking, nil)
	for rpm := 2; rpm < 5; rpm++ {
		s.write("tenants/a.yaml", policyOf("acme", rpm))
		snap, err := s.Reload()
		if err != nil || tenantsOf(snap) != fmt.Sprintf("acme:%d", rpm) {
			t.Fatalf("reload: %v, %v", snap, err)
		}
	}
	for _, text := range []string{"tenants: 1\n", "tenants: 2\n"} {
		s.write("tenants/a.yaml", text)
		if _, err := s.Reload(); err == nil {
			t.Fatal("a bad file is loaded")
		}
	}
	s.wants("acme:4")
	s.bad("is a single value")
	if _, err := s.Reload(); err == nil {
		t.Error("the file is good again")
	}
	select {
	case ev := <-s.Events():
		t.Errorf("the same problems again: %+v", ev)
	default:
	}
}

// TestWatch_Ends: with its context ends its goroutine, and whoever asks it is told.
func TestWatch_Ends(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	s := &site{t: t, dir: t.TempDir()}
	s.write("llmgov.yaml", goodConfig)
	s.write("tenants/a.yaml", policyOf("acme", 1))
	ctx, end := context.WithCancel(t.Context())
	w, err := Watch(ctx, s.path("llmgov.yaml"), nil, Options{})
	s.must(err)
	s.Watcher = w
	s.wants("acme:1") // nothing was in force
	s.write("tenants/a.yaml", policyOf("acme", 2))
	s.wants("acme:2")
	end()
	for range w.Events() {
		t.Error("an event after the end")
	}
	if _, err := w.Reload(); !errors.Is(err, ErrWatchEnded) {
		t.Errorf("Reload after the end: %v", err)
	}
}

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

// TestWatch_Secret: a secret in a file of its own is followed, too.
func TestWatch_Secret(t *testing.T) {
	onBoth(t, func(t *testing.T, k knobs) {
		s := newSite(t, k, func(s *site) {
			s.write("run/key", "sk-1\n")
			s.write("llmgov.yaml", strings.Replace(goodConfig, "}", ", api_key: \"file:run/key\"}", 1))
		})
		s.overwrite("run/key", "sk-2\n")
		if ev := s.next(); ev.Err != nil || ev.Snapshot.Config().Upstreams[0].APIKey != "sk-2" {
			t.Errorf("after the file of a key has changed: %v, %v", ev.Snapshot, ev.Err)
		}
		s.remove("run/key")
		s.bad("cannot be read")
		s.overwrite("llmgov.yaml", "\ta: b") // in which no secret is found
		s.bad("a tab")
		s.quiet(3)
	})
}
