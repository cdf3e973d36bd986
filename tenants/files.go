package tenants

import (
	"errors"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/llmgov/llmgov/internal/lib/strictyaml"
	"github.com/llmgov/llmgov/tenants/internal/disk"
	"github.com/llmgov/llmgov/tenants/keyfile"
)

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

// policyFile gets the text of a policy file.
func (l *loader) policyFile(f *policyFile) bool {
	data, err := l.readFile(f.path)
	if err != nil {
		l.r.Add(place{File: f.name}, "cannot be read: %v; fix or remove it", disk.Reason(err))
	}
	f.data = data
	return err == nil
}

// readFile reads at most one byte more than a file may have, for parse to refuse, and remembers its digest.
func (l *loader) readFile(name string) ([]byte, error) {
	_, named := l.more[name]
	read := disk.ReadPlain
	if named || name == l.config || l.config == "" {
		read = disk.ReadLimited // check may be given a pipe
	}
	most := int64(strictyaml.MaxBytes)
	if name == l.listFile {
		most = maxPriceList
	}
	data, info, err := read(l.fsys, name, most)
	if name == l.config && info != nil {
		l.configMode = info.Mode()
	}
	l.sums[name] = sumOf(data, err)
	l.remember(name, info, l.sums[name])
	return data, err
}

// look sees to the files that load would read, if the policies are globs, and answers their digest. Nothing is parsed.
func (l *loader) look(globs []string) sum {
	l.begin()
	l.lookAt(l.config)
	if l.keyFile != "" {
		l.lookAt(l.keyFile)
	}
	for _, name := range l.secretFiles {
		l.lookAt(name)
	}
	if globs != nil {
		for _, name := range l.files(globs) {
			l.lookAt(name)
		}
	}
	l.runtimeFiles(nil, nil)
	return l.sum()
}

func (l *loader) lookAt(name string) {
	if old, same := l.same(name); same {
		l.sums[name] = old.sum
		return
	}
	_, _ = l.readFile(name)
}

// keyFileOf is where the loader has the key file: by default beside the config file, and named after it.
func (l *loader) keyFileOf(setting string) string {
	if setting == "" {
		return strings.TrimSuffix(l.config, path.Ext(l.config)) + ".keys.yaml"
	}
	return l.beside(setting)
}

// findKeys notes where the keys made at run time are.
func (l *loader) findKeys(setting string) {
	l.keyFile = l.keyFileOf(setting)
	l.rooted[l.keyFile] = path.IsAbs(filepath.ToSlash(setting))
	l.keys = runtimeKeys{shown: l.show(l.keyFile)}
	if l.root != "" {
		l.keys.file = filepath.Join(l.root, filepath.FromSlash(l.keyFile))
	}
}

// readKeys reads the keys made at run time, if it is known where they are. A file that is not there holds none.
func (l *loader) readKeys() {
	if l.keyFile == "" {
		return
	}
	before := len(l.r.Problems)
	l.keys.Content = keyfile.Content{}
	data, err := l.readFile(l.keyFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		l.r.Add(place{File: l.keys.shown}, "cannot be read: %v; fix it, or name another with keys_file", disk.Reason(err))
	default:
		l.keys.Content = keyfile.Parse(l.r, l.keys.shown, data)
	}
	l.keysGood = len(l.r.Problems) == before
}

// rekeyed is the last good snapshot with the keys of the load that has just failed; nil where there is nothing new in
// them, or they are bad themselves.
func (l *loader) rekeyed(good *Snapshot) *Snapshot {
	if good == nil || !l.keysGood || l.keys.file != good.runtime.file {
		return nil
	}
	snap := good.WithKeys(l.keys.Content)
	if snap.Equal(good) {
		return nil
	}
	return snap
}
