package tenants

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
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
