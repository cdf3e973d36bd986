package tenants

import (
	"path/filepath"
	"time"

	"github.com/llmgov/llmgov/internal/strictyaml"
	"github.com/llmgov/llmgov/tenants/internal/disk"
)

// Alone reads policy files without a config: what each says by itself, and that no name is defined twice. Names that
// may lead elsewhere, to a tier of another file, a pool or a model, are not followed. The error is [Problems].
func Alone(names []string, opt Options) (tiers, list int, err error) {
	l := &loader{fsys: disk.FS{}, opt: opt}
	l.begin()
	p := newPolicy(l.r, &terms{zone: time.UTC})
	p.partial = true // tiers may be in files that were not named
	for _, name := range names {
		data, err := l.readFile(name)
		if err != nil {
			l.r.Add(place{File: filepath.ToSlash(name)}, "cannot be read: %v; name a policy file", disk.Reason(err))
			continue
		}
		if !l.policySize.add(l.r, filepath.ToSlash(name), volumeOf(data)) {
			continue
		}
		if doc := strictyaml.Parse(l.r, strictyaml.File{Name: filepath.ToSlash(name), Data: data, Expand: strictyaml.NoVariables}); doc != nil {
			p.readFile(strictyaml.Root(l.r, doc))
		}
	}
	p.readTenants()
	return len(p.tiers), len(p.waiting), l.r.Err()
}
