package tenants

import (
	"io/fs"
	"syscall"
	"time"
)

// stamp is what the file system says of a file's content: which file it is, and when it last changed. The time of
// change, unlike that of modification, cannot be set by programs.
type stamp struct {
	dev, ino  uint64
	size      int64
	sec, nsec int64
}

// stampOf is the zero stamp where the file system does not say enough.
func stampOf(info fs.FileInfo) stamp {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return stamp{}
	}
	sec, nsec := st.Ctim.Unix()
	return stamp{uint64(st.Dev), st.Ino, st.Size, sec, nsec}
}

func (s stamp) changed() time.Time { return time.Unix(s.sec, s.nsec) }
