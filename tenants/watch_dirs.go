package tenants

import (
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/fsnotify/fsnotify"
)

// mostDirs is how many folders are followed; changes in others are found by looking.
const mostDirs = 256

// dirs asks the file system to say when something happens in the folders of the files. Folders and not files, since
// an editor, a rename or a ConfigMap puts another file, or another target of a link, under the same name.
type dirs struct {
	notify *fsnotify.Watcher // nil where the file system cannot, or is not asked
}

func newDirs(ask bool) *dirs {
	if !ask {
		return &dirs{}
	}
	notify, err := fsnotify.NewWatcher()
	if err != nil {
		return &dirs{} // such as no inotify instance left: looking is enough
	}
	return &dirs{notify: notify}
}

// events delivers that something has happened somewhere.
func (d *dirs) events() <-chan fsnotify.Event {
	if d.notify == nil {
		return nil
	}
	return d.notify.Events
}

// errors delivers that events were lost.
func (d *dirs) errors() <-chan error {
	if d.notify == nil {
		return nil
	}
	return d.notify.Errors
}

func (d *dirs) close() {
	if d.notify != nil {
		_ = d.notify.Close()
	}
}

// follow makes the folders of the files those that are followed. It is repeated, since a folder that was removed and
// made again is another one. A folder that cannot be followed is not an error, because looking finds its changes.
func (d *dirs) follow(l *loader, globs []string) {
	if d.notify == nil {
		return
	}
	want := l.folders(globs)
	for _, dir := range d.notify.WatchList() {
		if !slices.Contains(want, dir) {
			_ = d.notify.Remove(dir)
		}
	}
	for _, dir := range want {
		_ = d.notify.Add(dir)
	}
}

// folders are those of the config, of the files last read, and those in which globs begin to seek.
func (l *loader) folders(globs []string) []string {
	inner := []string{path.Dir(l.config)}
	for name := range l.sums {
		inner = append(inner, path.Dir(name))
	}
	for _, glob := range globs {
		pattern := path.Join(path.Dir(l.config), glob)
		if path.IsAbs(glob) {
			pattern = path.Clean(strings.TrimLeft(glob, "/"))
		}
		dir := path.Dir(pattern)
		for strings.ContainsAny(dir, `*?[\`) {
			dir = path.Dir(dir)
		}
		inner = append(inner, dir)
	}
	slices.Sort(inner)
	inner = slices.Compact(inner)
	inner = inner[:min(len(inner), mostDirs)]
	for i := range inner {
		inner[i] = filepath.Join(l.root, filepath.FromSlash(inner[i]))
	}
	return inner
}
