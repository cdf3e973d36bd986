package tenants

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/llmgov/llmgov/internal/strictyaml"
)

// expandGlobs lists the files that globs match, each once, sorted. A glob without any is a problem: either the files
// are not where they should be, or the glob is a left-over.
func (l *loader) expandGlobs(globs []string) []string {
	var names []string
	for i, glob := range globs {
		at := strictyaml.Item("policies", i)
		found, err := l.glob(glob)
		switch {
		case errors.Is(err, path.ErrBadPattern):
			l.r.At(at, "%s is not a glob; write one such as tenants/*.yaml", l.r.Shown(at, glob))
		case err != nil:
			l.r.At(at, "%s cannot be searched: %v; fix that, or name other folders", l.r.Shown(at, glob), l.readable(err))
		case slices.Contains(found, l.config):
			l.r.At(at, "%s matches the config file itself; keep policies in a folder of their own", l.r.Shown(at, glob))
		case len(found) == 0:
			l.r.At(at, "%s matches no file; create one, or remove the glob", l.r.Shown(at, glob))
		}
		for _, name := range found {
			l.rooted[name] = path.IsAbs(glob)
		}
		names = append(names, slices.DeleteFunc(found, func(n string) bool { return n == l.config })...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// readable is err with the path that the user knows.
func (l *loader) readable(err error) error {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return fmt.Errorf("%s: %w", l.show(pe.Path), pe.Err)
	}
	return err
}

// glob lists the files that one glob matches, without the key file, which is no policy file wherever it is.
func (l *loader) glob(glob string) ([]string, error) {
	pattern := path.Join(path.Dir(l.config), glob)
	if path.IsAbs(glob) {
		pattern = path.Clean(strings.TrimLeft(glob, "/"))
	}
	if _, err := path.Match(pattern, ""); err != nil {
		return nil, err
	}
	found, err := expandGlob(l.fsys, pattern)
	return slices.DeleteFunc(found, func(n string) bool { return n == l.keyFile }), err
}

// expandGlob is fs.Glob, but for two things. A folder that cannot be read is an error: passed over, all its tenants
// would be gone. And as in a shell, * does not match a dot at the start of a name: editors keep locks and copies under
// such names, and a ConfigMap its versions.
func expandGlob(fsys fs.FS, pattern string) ([]string, error) {
	if !strings.ContainsAny(pattern, `*?[\`) {
		_, err := fs.Stat(fsys, pattern)
		if err != nil {
			return nil, unlessGone(err)
		}
		return []string{pattern}, nil
	}
	dirs, err := expandGlob(fsys, path.Dir(pattern))
	if err != nil {
		return nil, err
	}
	base := path.Base(pattern)
	var found []string
	for _, dir := range dirs {
		list, err := readFolder(fsys, dir)
		if err != nil {
			return nil, err
		}
		for _, entry := range list {
			name := entry.Name()
			if ok, _ := path.Match(base, name); ok && (name[0] != '.' || base[0] == '.') {
				found = append(found, path.Join(dir, name))
			}
		}
	}
	return found, nil
}

// readFolder lists a folder. A path that is no folder, or has just gone, holds nothing.
func readFolder(fsys fs.FS, dir string) ([]fs.DirEntry, error) {
	info, err := fs.Stat(fsys, dir)
	if err != nil || !info.IsDir() {
		return nil, unlessGone(err)
	}
	list, err := fs.ReadDir(fsys, dir)
	return list, unlessGone(err)
}

// unlessGone is err, unless that says that there is no such file.
func unlessGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
