package disk

import (
	"errors"
	"io/fs"
	"path"
	"strings"
)

// Glob is fs.Glob, but for two things. A folder that cannot be read is an error: passed over, all its tenants
// would be gone. And as in a shell, * does not match a dot at the start of a name: editors keep locks and copies under
// such names, and a ConfigMap its versions.
func Glob(fsys fs.FS, pattern string) ([]string, error) {
	if !strings.ContainsAny(pattern, `*?[\`) {
		_, err := fs.Stat(fsys, pattern)
		if err != nil {
			return nil, unlessGone(err)
		}
		return []string{pattern}, nil
	}
	dirs, err := Glob(fsys, path.Dir(pattern))
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
