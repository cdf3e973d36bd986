package tenants

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/llmgov/llmgov/internal/lib/strictyaml"
	"github.com/llmgov/llmgov/tenants/internal/disk"
)

// Load reads the config file at name and the policy files it names. The error is [Problems], or says why the config
// file could not be read.
func Load(name string, opt Options) (*Snapshot, error) {
	l, err := newLoader(name, opt)
	if err != nil {
		return nil, err
	}
	return load(l)
}

// LoadFS is [Load] within fsys, whose root is also the root of absolute globs.
func LoadFS(fsys fs.FS, name string, opt Options) (*Snapshot, error) {
	l := &loader{fsys: fsys, config: path.Clean(name), shown: name, opt: opt, more: map[string]string{}}
	for _, file := range opt.More {
		l.more[path.Clean(file)] = file
	}
	return load(l)
}

// load is one attempt to load all files, without the tenants that are set aside.
func (l *loader) load() (*Snapshot, error) {
	l.begin()
	l.secretFiles = nil // who looks for changes looks at no more than was read
	l.r.Places[""] = place{File: l.shown, Line: 1, Col: 1}
	data, err := l.readFile(l.config)
	if err != nil {
		l.readKeys()
		return nil, fmt.Errorf("cannot read config %s: %w; name the file with -c", l.shown, disk.Reason(err))
	}
	doc := strictyaml.Parse(l.r, strictyaml.File{Name: l.shown, Data: data, Expand: strictyaml.Expander(l.opt.Env), Spared: l.opt.spared()})
	if doc == nil {
		l.readKeys()
		return nil, l.r.Err()
	}
	file := configFile{settings: map[string]any{}}
	configShape.Read(strictyaml.Root(l.r, doc), &file)
	file.priceWrites()
	base := DefaultConfig()
	base.Upstreams = file.upstreams
	base.Pools = file.pools
	base.Prices = file.prices
	base.Listed = l.priceLists(&file)
	base.Identity = file.identity
	base.Notify = file.notify
	base.Admin.Roles = file.roles
	base.Admin.Proxy = file.proxy
	base.Named = l.opt.Named
	cfg := layer(l.r, base, file.settings, l.opt)
	l.secrets(&cfg)
	l.publicKeys(&cfg)
	l.findKeys(cfg.KeysFile)
	l.readKeys()
	list := l.policies(&cfg)
	l.forget()
	tenants := make([]Tenant, len(list))
	sums := make([]*sum, len(list))
	for i, t := range list {
		tenants[i] = *t.Tenant
		sums[i] = t.sum
	}
	snap, err := compile(l.r, cfg, tenants, sums)
	if err != nil {
		return nil, err
	}
	snap.exposed = append(exposed(l.r, &snap.cfg, l.shown, l.configMode), blank(l.r, &snap.cfg)...)
	snap.setAside(l)
	snap.loaded = &handover{}
	snap.loaded.loader.Store(l)
	return snap.withKeys(l.keys), nil
}

// policies reads all policy files in the order of their names.
func (l *loader) policies(cfg *Config) []listed {
	p := newPolicy(&given{zone: location(cfg.Timezone), pools: poolNames(cfg.Pools), config: sha256.Sum256(encode(cfg))})
	var files []*policyFile
	partial := false
	for _, name := range l.files(cfg.Policies) {
		f := p.file(name, l.show(name), nil)
		if old, same := l.same(name); same && old.tenants != nil && old.shown == f.name {
			l.sums[name] = old.sum
		} else if !l.policyFile(f) {
			partial = true
			continue
		}
		files = append(files, f)
	}
	files = append(files, l.runtimeFiles(p, cfg)...)
	under := p.readTiersOf(files)
	for _, f := range files {
		old := l.seen[f.path]
		switch {
		case old.tenants != nil && old.shown == f.name && old.under == under:
			f.sheet = old.sheet
			f.data = nil
		case f.data == nil && f.waiting == nil && old.tenants != nil:
			if l.policyFile(f) && f.definesTiers() { // since the look at it
				f.tiered = true
				f.open()
			}
		}
	}
	readAll(files)
	for _, f := range files {
		if old := l.seen[f.path]; len(f.r.Problems)+len(f.tierless.Problems) == 0 && !f.tiered && !f.runtime {
			old.sheet = sheet{f.tenants, f.places, f.name, under, f.sums, f.config}
			l.seen[f.path] = old
		}
	}
	return gather(l.r, files, partial, cfg.MaxTenants)
}

// LoadAdmin reads of a config file only where its gateway's admin side is. Whatever else is wrong in the files is left
// to [Load]: a gateway goes on with its last good policy while they are being mended, and wants to be watched just then.
func LoadAdmin(name string, opt Options) (Admin, error) {
	l, err := newLoader(name, opt)
	if err != nil {
		return Admin{}, err
	}
	l.begin()
	data, err := l.readFile(l.config)
	if err != nil {
		return Admin{}, fmt.Errorf("cannot read config %s: %w; name the file with -c", l.shown, disk.Reason(err))
	}
	doc := strictyaml.Parse(l.r, strictyaml.File{Name: l.shown, Data: data, Expand: strictyaml.Expander(opt.Env)})
	if doc == nil {
		return Admin{}, l.r.Err()
	}
	file := configFile{settings: map[string]any{}}
	configShape.Read(strictyaml.Root(l.r, doc), &file)
	for _, path := range []string{strictyaml.Child("admin", "listen"), strictyaml.Child("admin", "token")} {
		_, written := l.r.Places[path]
		if _, understood := file.settings[path]; l.r.Refused["admin"] || written && !understood {
			return Admin{}, l.r.Err()
		}
	}
	l.r = strictyaml.NewReport()
	cfg := layer(l.r, DefaultConfig(), file.settings, opt)
	l.secret(&cfg.Admin.Token, strictyaml.Child("admin", "token"), parseToken)
	return cfg.Admin, l.r.Err()
}

// Alone checks policy files without a config: each by itself, and that no name is defined twice. Names that
// may lead elsewhere, to a tier of another file, a pool or a model, are not followed. The error is [Problems].
func Alone(names []string, opt Options) (tiers, list int, err error) {
	l := &loader{fsys: disk.FS{}, opt: opt}
	l.begin()
	p := newPolicy(&given{zone: time.UTC})
	var files []*policyFile
	for _, name := range names {
		data, err := l.readFile(name)
		if err != nil {
			l.r.Add(place{File: filepath.ToSlash(name)}, "cannot be read: %v; name a policy file", disk.Reason(err))
			continue
		}
		files = append(files, p.file(name, filepath.ToSlash(name), data))
	}
	p.readTiersOf(files)
	readAll(files)
	for _, t := range gather(l.r, files, true, maxMaxTenants) { // tiers may be in files that were not named
		if !strings.Contains(t.Name, teamSep) {
			list++
		}
	}
	return len(p.tiers), list, l.r.Err()
}
