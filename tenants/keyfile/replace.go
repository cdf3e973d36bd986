package keyfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/llmgov/llmgov/internal/lib/strictyaml"
)

// behindLinks is the file that a path leads to, whether it is there yet or not: so a link stays one, and all who have
// it wait for the same lock.
func behindLinks(path string) (string, error) {
	const most = 40 // as in Linux
	for range most {
		dir, err := filepath.EvalSymlinks(filepath.Dir(path))
		if err != nil {
			return "", err
		}
		path = filepath.Join(dir, filepath.Base(path))
		link, err := os.Readlink(path)
		switch {
		case err != nil: // it is no link
			return path, nil
		case filepath.IsAbs(link):
			path = link
		default:
			path = filepath.Join(dir, link)
		}
	}
	return "", fmt.Errorf("more than %d links lead to each other", most)
}

// replaceFile puts data in the place of a file, with its permissions. Whoever reads meanwhile, or after a crash, sees
// the old or the new. The caller holds the file's lock.
func replaceFile(path string, data []byte) error {
	if len(data) > strictyaml.MaxBytes {
		return errFull
	}
	dir, name := filepath.Split(path)
	next := filepath.Join(dir, "."+name+".new") // a left-over is of a writer that died
	if err := os.Remove(next); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	mode := fs.FileMode(0o600)
	if info, err := os.Stat(path); err == nil {
		mode = info.Mode().Perm() // somebody else may be allowed to read it
	}
	if err := writeSynced(next, data, mode); err != nil {
		return err
	}
	if err := os.Rename(next, path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

func writeSynced(path string, data []byte, mode fs.FileMode) error {
	out, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = out.Write(data)
	return errors.Join(err, out.Chmod(mode), out.Sync(), out.Close()) // whatever the umask is
}

// syncDir makes a rename in a folder last.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
