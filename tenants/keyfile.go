package tenants

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/llmgov/llmgov/internal/strictyaml"
)

// RuntimeKeys are the API keys made, and those revoked, while gateways run: what a [KeyFile] holds.
type RuntimeKeys struct {
	// Keys are in the order in which they were made. No two have the same hash.
	Keys []RuntimeKey
	// Revoked are hashes that open nothing, whatever file has them.
	Revoked []RevokedKey
}

// RuntimeKey is a key that was made at run time.
type RuntimeKey struct {
	Key
	// Tenant is whom it is for. Whether there is such a tenant is for the policy to say.
	Tenant string
	// Created is when it was made.
	Created time.Time
}

// RevokedKey is a key that was revoked.
type RevokedKey struct {
	Hash KeyHash
	At   time.Time
}

// ID names the key where its hash is too long: in URLs and logs.
func (h KeyHash) ID() string { return "key_" + hex.EncodeToString(h[:8]) }

// KeyFile is the file of keys made and revoked at run time. Any number of processes may change it at the same time:
// each change is made under a lock beside the file, to what the file holds then, and the file is replaced as a whole.
// What cannot be read is never written over.
type KeyFile struct{ path string }

// NewKeyFile is the key file at a path, whether it is there yet or not.
func NewKeyFile(path string) *KeyFile { return &KeyFile{path} }

// Path is where the file is.
func (f *KeyFile) Path() string { return f.path }

// Why a key is not added.
var (
	ErrKeyTaken    = errors.New("tenants: a key of this hash is there already")
	ErrKeyRevoked  = errors.New("tenants: the key of this hash was revoked")
	errKeyFileFull = errors.New("it would be larger than what is read; move keys to policy files, or remove old entries of revoked")
)

// List reads the file. One that is not there holds nothing. The error is [Problems], or why it cannot be read.
func (f *KeyFile) List() (RuntimeKeys, error) {
	data, _, err := readPlain(osFiles{}, f.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return RuntimeKeys{}, nil
	case err != nil:
		return RuntimeKeys{}, fmt.Errorf("keys_file %s: %w", f.path, reason(err))
	}
	r := strictyaml.NewReport()
	keys := readKeys(r, filepath.ToSlash(f.path), data)
	return keys, r.Err()
}

// Add writes one more key. The error is [ErrKeyTaken] or [ErrKeyRevoked] where the file has its hash, or why the file
// stays as it was.
func (f *KeyFile) Add(k RuntimeKey) error {
	if complaint := checkName(k.Tenant); complaint != "" {
		return fmt.Errorf("tenant: %s %s", strictyaml.Show(k.Tenant), complaint)
	}
	if err := CheckKeyName(k.Name); err != nil {
		return err
	}
	if !writable(k.Created) || !writable(k.Expires) {
		return errors.New("created or expires is not in the years 0 to 9999")
	}
	return f.change(func(keys *RuntimeKeys) error {
		switch {
		case slices.ContainsFunc(keys.Revoked, func(r RevokedKey) bool { return r.Hash == k.Hash }):
			return ErrKeyRevoked
		case slices.ContainsFunc(keys.Keys, func(o RuntimeKey) bool { return o.Hash == k.Hash }):
			return ErrKeyTaken
		}
		keys.Keys = append(keys.Keys, k)
		return nil
	})
}

// Revoke makes a key open nothing any more, whether it is in this file or in a policy file, and answers since when.
// To revoke it again changes nothing.
func (f *KeyFile) Revoke(h KeyHash, now time.Time) (since time.Time, err error) {
	err = f.change(func(keys *RuntimeKeys) error {
		keys.Keys = slices.DeleteFunc(keys.Keys, func(k RuntimeKey) bool { return k.Hash == h })
		i := slices.IndexFunc(keys.Revoked, func(r RevokedKey) bool { return r.Hash == h })
		if i >= 0 {
			since = keys.Revoked[i].At
			return nil
		}
		since = now.UTC().Truncate(time.Second)
		keys.Revoked = append(keys.Revoked, RevokedKey{h, since})
		return nil
	})
	return since, err
}

// change replaces the file by what edit makes of it, unless edit answers an error.
func (f *KeyFile) change(edit func(*RuntimeKeys) error) error {
	path, err := behindLinks(f.path)
	if err != nil {
		return fmt.Errorf("keys_file %s: %w", f.path, reason(err))
	}
	unlock, err := lockFile(path + ".lock")
	if err != nil {
		return fmt.Errorf("keys_file %s: %w", f.path, err)
	}
	defer unlock()
	keys, err := f.List()
	if err != nil {
		return err
	}
	if err := edit(&keys); err != nil {
		return err
	}
	if err := replaceFile(path, encodeKeys(keys)); err != nil {
		return fmt.Errorf("keys_file %s: %w", f.path, err)
	}
	return nil
}

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
		return errKeyFileFull
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
