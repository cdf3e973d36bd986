//go:build !linux

package tenants

import (
	"io/fs"
	"time"
)

// stamp would tell one content of a file from another without reading it. Elsewhere than on Linux, files are read.
type stamp struct{}

func stampOf(fs.FileInfo) stamp { return stamp{} }

func (stamp) changed() time.Time { return time.Time{} }
