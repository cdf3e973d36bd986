package tenants

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/llmgov/llmgov/internal/strictyaml"
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

// newLoader is a loader of the disk. The whole volume is its file system, so that policies may lie beside, above or far
// from the config file.
func newLoader(name string, opt Options) (*loader, error) {
	abs, err := filepath.Abs(name)
	if err != nil {
		return nil, fmt.Errorf("config %s: %w; give its full path", name, err)
	}
	root := filepath.VolumeName(abs) + string(filepath.Separator)
	l := &loader{
		fsys: os.DirFS(root), root: root, config: within(root, abs), shown: filepath.ToSlash(name), opt: opt, more: map[string]string{},
	}
	for _, file := range opt.More {
		abs, err := filepath.Abs(file)
		if err != nil {
			return nil, fmt.Errorf("policy file %s: %w; give its full path", file, err)
		}
		l.more[within(root, abs)] = filepath.ToSlash(file)
	}
	return l, nil
}

// within is a full path as the file system of its volume has it.
func within(root, abs string) string {
	return filepath.ToSlash(strings.TrimPrefix(abs, root))
}

// LoadFS is [Load] within fsys, whose root is also the root of absolute globs.
func LoadFS(fsys fs.FS, name string, opt Options) (*Snapshot, error) {
	l := &loader{fsys: fsys, config: path.Clean(name), shown: name, opt: opt, more: map[string]string{}}
	for _, file := range opt.More {
		l.more[path.Clean(file)] = file
	}
	return load(l)
}

// loader reads files. Each file has two names: where fsys has it, and what the user calls it.
type loader struct {
	fsys   fs.FS
	root   string // where fsys begins on the disk
	config string
	shown  string
	opt    Options
	rooted map[string]bool   // files that an absolute glob found
	more   map[string]string // Options.More, and what the user calls them
	globs  []string          // the policies that were sought; nil when the config was not understood so far
	sums   map[string]sum    // what was read
	seen   map[string]seenFile
	clock  func() time.Time // the wall's, as that of file systems
	r      *report

	policySize volume // of the policy files that were read so far
	configMode fs.FileMode

	keyFile  string      // as the config last named it; empty before the first load
	keys     runtimeKeys // what it holds
	keysGood bool        // that it could be read
}

// begin makes the loader forget what it has seen.
func (l *loader) begin() {
	l.r = strictyaml.NewReport()
	l.rooted = map[string]bool{}
	l.globs = nil
	l.sums = map[string]sum{}
	l.policySize = volume{}
	if l.seen == nil {
		l.seen = map[string]seenFile{}
	}
	if l.clock == nil {
		l.clock = time.Now
	}
}

func load(l *loader) (*Snapshot, error) {
	l.begin()
	l.r.Places[""] = place{File: l.shown, Line: 1, Col: 1}
	data, err := l.readFile(l.config)
	if err != nil {
		l.readKeys()
		return nil, fmt.Errorf("cannot read config %s: %w; name the file with -c", l.shown, disk.Reason(err))
	}
	doc := strictyaml.Parse(l.r, strictyaml.File{Name: l.shown, Data: data, Expand: strictyaml.Expander(l.opt.Env)})
	if doc == nil {
		l.readKeys()
		return nil, l.r.Err()
	}
	file := configFile{settings: map[string]any{}}
	configShape.Read(strictyaml.Root(l.r, doc), &file)
	base := DefaultConfig()
	base.Upstreams = file.upstreams
	base.Pools = file.pools
	base.Prices = file.prices
	cfg := layer(l.r, base, file.settings, l.opt)
	l.findKeys(cfg.KeysFile)
	l.readKeys()
	list := l.policies(&cfg)
	l.forget()
	snap, err := compile(l.r, cfg, list)
	if err != nil {
		return nil, err
	}
	snap.exposed = exposed(l.r, &snap.cfg, l.shown, l.configMode)
	return snap.withKeys(l.keys), nil
}

// policies reads all policy files in the order of their names.
func (l *loader) policies(cfg *Config) []Tenant {
	p := newPolicy(l.r, &terms{zone: location(cfg.Timezone), pools: poolNames(cfg.Pools)})
	for _, name := range l.files(cfg.Policies) {
		doc := l.policyFile(name)
		if doc == nil {
			p.partial = true
			continue
		}
		p.readFile(strictyaml.Root(l.r, doc))
	}
	return p.readTenants()
}

// files are the policy files to read, by the globs and by name.
func (l *loader) files(globs []string) []string {
	l.globs = globs
	names := l.expandGlobs(globs)
	if len(names) > maxPolicyFiles {
		l.r.At("policies", "there are %d policy files, more than the %d that are supported; put several tenants into one", len(names), maxPolicyFiles)
		names = names[:maxPolicyFiles]
	}
	for _, name := range slices.Sorted(maps.Keys(l.more)) {
		if !slices.Contains(names, name) && name != l.config {
			names = append(names, name)
		}
	}
	return names
}

// policyFile reads one policy file, or remembers what it read before.
func (l *loader) policyFile(name string) *document {
	shown := l.show(name)
	if old, same := l.same(name); same && old.doc != nil && old.doc.Name == shown {
		l.sums[name] = old.sum
		return l.counted(old)
	}
	data, err := l.readFile(name)
	if err != nil {
		l.r.Add(place{File: shown}, "cannot be read: %v; fix or remove it", disk.Reason(err))
		return nil
	}
	if old := l.seen[name]; old.doc != nil && old.doc.Name == shown {
		return l.counted(old)
	}
	if !l.policySize.add(l.r, shown, volumeOf(data)) {
		return nil
	}
	before := len(l.r.Problems)
	doc := strictyaml.Parse(l.r, strictyaml.File{Name: shown, Data: data, Expand: strictyaml.NoVariables})
	if len(l.r.Problems) == before {
		file := l.seen[name]
		file.doc = doc
		file.size = volumeOf(data)
		l.seen[name] = file
	}
	return doc
}

// counted is a policy file that was parsed before, or nil if it is too much beside the others.
func (l *loader) counted(file seenFile) *document {
	if !l.policySize.add(l.r, file.doc.Name, file.size) {
		return nil
	}
	return file.doc
}

// readFile reads at most one byte more than a file may have, for parse to refuse, and notes what it saw.
func (l *loader) readFile(name string) ([]byte, error) {
	_, named := l.more[name]
	read := disk.ReadPlain
	if named || name == l.config || l.config == "" {
		read = disk.ReadLimited // check may be given a pipe
	}
	data, info, err := read(l.fsys, name)
	if name == l.config && info != nil {
		l.configMode = info.Mode()
	}
	l.sums[name] = sumOf(data, err)
	l.remember(name, info, l.sums[name])
	return data, err
}

// show is what the user calls a file: relative to the config file's name as it was given, or absolute as its glob is.
func (l *loader) show(name string) string {
	if shown, given := l.more[name]; given {
		return shown
	}
	if l.rooted[name] {
		return "/" + name
	}
	rel, err := filepath.Rel(filepath.FromSlash(path.Dir(l.config)), filepath.FromSlash(name))
	if err != nil {
		return name
	}
	return path.Join(path.Dir(l.shown), filepath.ToSlash(rel))
}
