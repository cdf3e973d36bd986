package tenants

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/llmgov/llmgov/internal/lib/strictyaml"
	"github.com/llmgov/llmgov/tenants/internal/disk"
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
	pattern := l.pattern(glob)
	if _, err := path.Match(pattern, ""); err != nil {
		return nil, err
	}
	found, err := disk.Glob(l.fsys, pattern)
	return slices.DeleteFunc(found, func(n string) bool { return n == l.keyFile }), err
}

// pattern is a glob as the loader's file system has it: from the config file's folder, unless it is absolute.
func (l *loader) pattern(glob string) string {
	if path.IsAbs(glob) {
		return path.Clean(strings.TrimLeft(glob, "/"))
	}
	return path.Join(path.Dir(l.config), glob)
}

// folders are those of the config, of the files last read, and those in which globs begin to seek.
func (l *loader) folders(globs []string) []string {
	inner := []string{path.Dir(l.config)}
	for name := range l.sums {
		inner = append(inner, path.Dir(name))
	}
	for _, glob := range globs {
		dir := path.Dir(l.pattern(glob))
		for strings.ContainsAny(dir, `*?[\`) {
			dir = path.Dir(dir)
		}
		inner = append(inner, dir)
	}
	slices.Sort(inner)
	inner = slices.Compact(inner)
	for i := range inner {
		inner[i] = filepath.Join(l.root, filepath.FromSlash(inner[i]))
	}
	return inner
}
