package disk

import (
	"slices"

	"github.com/fsnotify/fsnotify"
)

// mostFolders is how many folders are followed; changes in others are found by looking.
const mostFolders = 256

// Folders asks the file system to say when something happens in some folders. Folders and not files, since
// an editor, a rename or a ConfigMap puts another file, or another target of a link, under the same name.
type Folders struct {
	notify *fsnotify.Watcher // nil where the file system cannot, or is not asked
}

// NewFolders follows no folder yet. Without ask the file system is not asked, and nothing ever happens.
func NewFolders(ask bool) *Folders {
	if !ask {
		return &Folders{}
	}
	notify, err := fsnotify.NewWatcher()
	if err != nil {
		return &Folders{} // such as no inotify instance left: looking is enough
	}
	return &Folders{notify: notify}
}

// Events delivers that something has happened somewhere.
func (f *Folders) Events() <-chan fsnotify.Event {
	if f.notify == nil {
		return nil
	}
	return f.notify.Events
}

// Errors delivers that events were lost.
func (f *Folders) Errors() <-chan error {
	if f.notify == nil {
		return nil
	}
	return f.notify.Errors
}

// Close ends that.
func (f *Folders) Close() {
	if f.notify != nil {
		_ = f.notify.Close()
	}
}

// Follow makes some folders those that are followed, of many only the first. It is repeated, since a folder that was removed and
// made again is another one. A folder that cannot be followed is not an error, because looking finds its changes.
func (f *Folders) Follow(want []string) {
	if f.notify == nil {
		return
	}
	want = want[:min(len(want), mostFolders)]
	for _, dir := range f.notify.WatchList() {
		if !slices.Contains(want, dir) {
			_ = f.notify.Remove(dir)
		}
	}
	for _, dir := range want {
		_ = f.notify.Add(dir)
	}
}
