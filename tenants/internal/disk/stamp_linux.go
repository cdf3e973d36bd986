package disk

import (
	"io/fs"
	"syscall"
	"time"
)

// Stamp tells one content of a file from another, by the file system's word: which file it is, and when it last changed. The time of
// change, unlike that of modification, cannot be set by programs.
type Stamp struct {
	dev, ino  uint64
	size      int64
	sec, nsec int64
}

// StampOf is the zero stamp where the file system does not say enough.
func StampOf(info fs.FileInfo) Stamp {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return Stamp{}
	}
	sec, nsec := st.Ctim.Unix()
	return Stamp{uint64(st.Dev), st.Ino, st.Size, sec, nsec}
}

// Changed is when the content changed.
func (s Stamp) Changed() time.Time { return time.Unix(s.sec, s.nsec) }
