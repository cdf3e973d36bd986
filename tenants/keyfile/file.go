package keyfile

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"github.com/llmgov/llmgov/internal/lib/atomicfile"
	"github.com/llmgov/llmgov/internal/lib/strictyaml"
	"github.com/llmgov/llmgov/tenants/internal/disk"
)

// Content is that of a key file: the API keys made, and those revoked, while gateways run.
type Content struct {
	// Keys are in the order in which they were made. No two have the same hash.
	Keys []Entry
	// Revoked are hashes that open nothing, whatever file has them.
	Revoked []Revoked
}

// Entry is a key that was made at run time.
type Entry struct {
	Key
	// Tenant is whom it is for. Whether there is such a tenant is for the policy to say.
	Tenant string
	// Created is when it was made.
	Created time.Time
}

// Revoked is a key that was revoked.
type Revoked struct {
	Hash Hash
	At   time.Time
}

// File is the file of keys made and revoked at run time. Any number of processes may change it at the same time:
// each change is made under a lock beside the file, to its content at that time, and the file is replaced as a whole.
// A file that cannot be read is never written over.
type File struct{ path string }

// New is the key file at a path, whether it is there yet or not.
func New(path string) *File { return &File{path} }

// Path is where the file is.
func (f *File) Path() string { return f.path }

// The reasons for which a key is not added.
var (
	ErrTaken   = errors.New("keyfile: a key of this hash is there already")
	ErrRevoked = errors.New("keyfile: the key of this hash was revoked")
	errFull    = errors.New("it would be larger than what is read; move keys to policy files, or remove old entries of revoked")
)

// List reads the file. One that is not there holds nothing. The error is [strictyaml.Problems], or why it cannot be read.
func (f *File) List() (Content, error) {
	data, _, err := disk.ReadPlain(disk.FS{}, f.path, strictyaml.MaxBytes)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Content{}, nil
	case err != nil:
		return Content{}, fmt.Errorf("keys_file %s: %w", f.path, disk.Reason(err))
	}
	r := strictyaml.NewReport()
	keys := Parse(r, filepath.ToSlash(f.path), data)
	return keys, r.Err()
}

// Add writes one more key. The error is [ErrTaken] or [ErrRevoked] if the file has its hash, or why the file
// stays as it was.
func (f *File) Add(k Entry) error {
	if complaint := strictyaml.CheckName(k.Tenant); complaint != "" {
		return fmt.Errorf("tenant: %s %s", strictyaml.Show(k.Tenant), complaint)
	}
	if err := CheckName(k.Name); err != nil {
		return err
	}
	if !writable(k.Created) || !writable(k.Expires) {
		return errors.New("created or expires is not in the years 0 to 9999")
	}
	return f.change(func(keys *Content) error {
		switch {
		case slices.ContainsFunc(keys.Revoked, func(r Revoked) bool { return r.Hash == k.Hash }):
			return ErrRevoked
		case slices.ContainsFunc(keys.Keys, func(o Entry) bool { return o.Hash == k.Hash }):
			return ErrTaken
		}
		keys.Keys = append(keys.Keys, k)
		return nil
	})
}

// Revoke makes a key open nothing any more, whether it is in this file or in a policy file, and answers since when.
// To revoke it again changes nothing.
func (f *File) Revoke(h Hash, now time.Time) (since time.Time, err error) {
	err = f.change(func(keys *Content) error {
		keys.Keys = slices.DeleteFunc(keys.Keys, func(k Entry) bool { return k.Hash == h })
		i := slices.IndexFunc(keys.Revoked, func(r Revoked) bool { return r.Hash == h })
		if i >= 0 {
			since = keys.Revoked[i].At
			return nil
		}
		since = now.UTC().Truncate(time.Second)
		keys.Revoked = append(keys.Revoked, Revoked{h, since})
		return nil
	})
	return since, err
}

// change edits the content and replaces the file, unless edit answers an error.
func (f *File) change(edit func(*Content) error) error {
	path, err := behindLinks(f.path)
	if err != nil {
		return fmt.Errorf("keys_file %s: %w", f.path, disk.Reason(err))
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
	if err := replaceFile(path, Encode(keys)); err != nil {
		return fmt.Errorf("keys_file %s: %w", f.path, err)
	}
	return nil
}

// replaceFile puts data in the place of a file that can be read again. The caller holds its lock.
func replaceFile(path string, data []byte) error {
	if len(data) > strictyaml.MaxBytes {
		return errFull
	}
	return atomicfile.Replace(path, data)
}
