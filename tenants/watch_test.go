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

// TestWatch_Since reports first what has changed since the snapshot in force was loaded.
func TestWatch_Since(t *testing.T) {
	s := newSite(t, byEvents, nil)
	from, err := Load(s.path("llmgov.yaml"), Options{})
	s.must(err)
	s.write("tenants/a.yaml", policyOf("acme", 2))
	l, err := newLoader(s.path("llmgov.yaml"), Options{})
	s.must(err)
	ctx, end := context.WithCancel(t.Context())
	second := &site{t: t, dir: s.dir, Watcher: watch(ctx, l, from, byEvents), end: end}
	second.wants("acme:2")
	end()
	for range second.Events() {
		t.Error("an event after the end")
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
