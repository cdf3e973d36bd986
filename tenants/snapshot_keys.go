package tenants

import (
	"crypto/sha256"
	"errors"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/llmgov/llmgov/tenants/internal/disk"
	"github.com/llmgov/llmgov/tenants/keyfile"
)

// runtimeKeys is a snapshot's part that a [KeyFile] fills.
type runtimeKeys struct {
	keyfile.Content
	file  string // on the disk; empty where there is none
	shown string // what the user calls it
	// What the snapshot is without them.
	policy keyTable
	full   [sha256.Size]byte
}

// keyFileOf is where the loader has the key file: by default beside the config file, and named after it.
func (l *loader) keyFileOf(setting string) string {
	switch {
	case setting == "":
		return strings.TrimSuffix(l.config, path.Ext(l.config)) + ".keys.yaml"
	case path.IsAbs(filepath.ToSlash(setting)):
		return path.Clean(strings.TrimLeft(filepath.ToSlash(setting), "/"))
	}
	return path.Join(path.Dir(l.config), filepath.ToSlash(setting))
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

// withKeys is the snapshot with the keys of its key file.
func (s *Snapshot) withKeys(keys runtimeKeys) *Snapshot {
	keys.policy, keys.full = s.runtime.policy, s.runtime.full
	out := *s
	out.runtime, out.byKey, out.full = keys, keys.policy, keys.full
	if len(keys.Keys)+len(keys.Revoked) == 0 {
		return &out
	}
	out.full = sha256.Sum256(append(out.full[:], keyfile.Encode(keys.Content)...))
	revoked := make(map[KeyHash]bool, len(keys.Revoked))
	for _, r := range keys.Revoked {
		revoked[r.Hash] = true
	}
	out.byKey = newKeyTable(len(keys.policy.slots)/2 + len(keys.Keys))
	for _, slot := range keys.policy.slots {
		if slot.used && !revoked[slot.hash] {
			out.byKey.put(slot.at)
		}
	}
	for i := range keys.Keys {
		k := &out.runtime.Keys[i]
		if t, known := s.byName[k.Tenant]; known && !keys.policy.has(&k.Hash) && !revoked[k.Hash] {
			out.byKey.put(keyAt{t, &k.Key})
		}
	}
	return &out
}

// Callable reports, by [Tenant.Index], which tenants have a key: the others are there for their teams, or until they
// get one.
func (s *Snapshot) Callable() []bool {
	list := make([]bool, len(s.tenants))
	for _, slot := range s.byKey.slots {
		if slot.used {
			list[slot.at.tenant] = true
		}
	}
	return list
}

// WithKeys is the snapshot with other keys made and revoked at run time, and else the same. So a revocation counts
// also while the policy files cannot be loaded.
func (s *Snapshot) WithKeys(keys keyfile.Content) *Snapshot {
	next := s.runtime
	next.Content = keyfile.Content{Keys: slices.Clone(keys.Keys), Revoked: slices.Clone(keys.Revoked)}
	return s.withKeys(next)
}

// KeyFile is the file of the keys made at run time; nil in a snapshot that was not loaded from the disk.
func (s *Snapshot) KeyFile() *keyfile.File {
	if s.runtime.file == "" {
		return nil
	}
	return keyfile.New(s.runtime.file)
}

// rekeyed is the last good snapshot with the keys of the load that has just failed; nil where there is nothing new in
// them, or they are among what is bad.
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
