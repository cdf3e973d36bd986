package tenants

import (
	"io/fs"
	"time"
)

// seenFile is what a loader remembers of a file, so that what has not changed is neither read nor parsed again.
type seenFile struct {
	sum sum
	// stamp tells this content from any other while trusted lasts; the zero stamp does not.
	stamp   stamp
	trusted time.Time
	// doc is the file parsed, if there was nothing wrong with that, and size is how much it holds.
	doc  *document
	size volume
}

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
	if !known || old.stamp == (stamp{}) || l.clock().After(old.trusted) {
		return old, false
	}
	info, err := fs.Stat(l.fsys, name)
	return old, err == nil && stampOf(info) == old.stamp
}

// remember notes the content of a file, which info was of before it was read. What was parsed of the same stays.
func (l *loader) remember(name string, info fs.FileInfo, of sum) {
	now := l.clock()
	next := seenFile{sum: of, trusted: now.Add(mostTrusted)}
	if info != nil {
		if s := stampOf(info); now.Sub(s.changed()) > restless {
			next.stamp = s
		}
	}
	if old := l.seen[name]; old.sum == of {
		next.doc = old.doc
		next.size = old.size
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

// forget drops what is remembered of files that were not read this time.
func (l *loader) forget() {
	for name := range l.seen {
		if _, read := l.sums[name]; !read {
			delete(l.seen, name)
		}
	}
}
