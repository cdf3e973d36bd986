// Package atomicfile replaces files so that whoever reads meanwhile, or after a crash of the machine, sees the old text or the new one.
package atomicfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Replace puts text in the place of a file, with its permissions, or those of the owner alone if there is none. One caller at a time may
// replace a file.
func Replace(path string, text []byte) error {
	dir, name := filepath.Split(path)
	next := filepath.Join(dir, "."+name+".new")
	if err := os.Remove(next); err != nil && !errors.Is(err, fs.ErrNotExist) { // of a writer that died
		return err
	}
	mode := fs.FileMode(0o600)
	if info, err := os.Stat(path); err == nil {
		mode = info.Mode().Perm() // somebody else may be allowed to read it
	}
	out, err := os.OpenFile(next, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = out.Write(text)
	if err := errors.Join(err, out.Chmod(mode), out.Sync(), out.Close()); err != nil { // Chmod, whatever the umask is
		return err
	}
	if err := os.Rename(next, path); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(path))
}

// SyncDir makes the names of the files in a folder last.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
