package tenants

import (
	"crypto/sha256"
	"maps"
	"slices"

	"github.com/llmgov/llmgov/tenants/internal/disk"
)

// sum is a digest of one file, or of all that one load has read.
type sum [sha256.Size]byte

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

// look sees to the files that load would read, if the policies are globs, and answers their digest. Nothing is parsed.
func (l *loader) look(globs []string) sum {
	l.begin()
	l.lookAt(l.config)
	if l.keyFile != "" {
		l.lookAt(l.keyFile)
	}
	if globs != nil {
		for _, name := range l.files(globs) {
			l.lookAt(name)
		}
	}
	return l.sum()
}

func (l *loader) lookAt(name string) {
	if old, same := l.same(name); same {
		l.sums[name] = old.sum
		return
	}
	_, _ = l.readFile(name)
}
