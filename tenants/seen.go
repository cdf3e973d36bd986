package tenants

import (
	"crypto/sha256"
	"io/fs"
	"maps"
	"slices"
	"time"

	"github.com/llmgov/llmgov/tenants/internal/disk"
)

const (
	// restless is how old a change must be for the stamp of a file to tell it from the next one: the clocks of file
	// systems tick in milliseconds, of some in whole seconds.
	restless = 3 * time.Second
	// mostTrusted is how long content is taken for unchanged without a look at it, in case a file system's stamps lie.
	mostTrusted = time.Minute
)

// same reports whether the file is as it was seen, by its stamp alone.
func (l *loader) same(name string) (seenFile, bool) {
	old, known := l.seen[name]
	if !known || old.stamp == (disk.Stamp{}) || l.clock().After(old.trusted) {
		return old, false
	}
	info, err := fs.Stat(l.fsys, name)
	return old, err == nil && disk.StampOf(info) == old.stamp
}

// remember notes the content of a file, which info was of before it was read. The sheet of the same content stays.
func (l *loader) remember(name string, info fs.FileInfo, of sum) {
	now := l.clock()
	next := seenFile{sum: of, trusted: now.Add(mostTrusted)}
	if info != nil {
		if s := disk.StampOf(info); now.Sub(s.Changed()) > restless {
			next.stamp = s
		}
	}
	if old := l.seen[name]; old.sum == of {
		next.sheet = old.sheet
	}
	l.seen[name] = next
}

// distrust makes the next look read every file: somebody asked for it.
func (l *loader) distrust() {
	for name, file := range l.seen {
		file.trusted = time.Time{}
		l.seen[name] = file
	}
}

// forget drops the memory of files that were not read this time.
func (l *loader) forget() {
	for name := range l.seen {
		if _, read := l.sums[name]; !read {
			delete(l.seen, name)
		}
	}
}

// sumOf is the digest of a file, or of why it could not be read: a reason that stays the same is no change.
func sumOf(data []byte, err error) sum {
	if err != nil {
		return sha256.Sum256([]byte("\x00unreadable: " + disk.Reason(err).Error()))
	}
	return sha256.Sum256(data)
}

// sum is the digest of all files that were read, and of their names.
func (l *loader) sum() sum {
	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(l.sums)) {
		one := l.sums[name]
		h.Write([]byte(name))
		h.Write(one[:])
	}
	return sum(h.Sum(nil))
}
