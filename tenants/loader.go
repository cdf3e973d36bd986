package tenants

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/llmgov/llmgov/internal/lib/strictyaml"
	"github.com/llmgov/llmgov/tenants/internal/disk"
)

// loader reads files. Each file has two names: its path in fsys, and the name that the user gave it.
type loader struct {
	fsys   fs.FS
	root   string // where fsys begins on the disk
	config string
	shown  string
	opt    Options
	rooted map[string]bool   // files that an absolute glob found
	more   map[string]string // Options.More, and the user's names of them
	globs  []string          // the policies that were sought; nil when the config was not understood so far
	sums   map[string]sum    // of the files that were read
	seen   map[string]seenFile
	clock  func() time.Time // the wall's, as that of file systems
	r      *report

	set   []RuntimeTenant   // of Options.Runtime, during a load; nil before it is asked
	aside map[string]string // why some of them are set aside, by name

	secretFiles []string // that the config named when it was last read

	listFile string       // the list of prices that the config last named
	listed   []ModelPrice // of the list of prices that was last read
	listedOf sum

	configMode fs.FileMode

	keyFile  string      // as the config last named it; empty before the first load
	keys     runtimeKeys // its content
	keysGood bool        // that it could be read
}

// newLoader is a loader of the disk. The whole volume is its file system, so that policies may lie beside, above or far
// from the config file.
func newLoader(name string, opt Options) (*loader, error) {
	abs, err := filepath.Abs(name)
	if err != nil {
		return nil, fmt.Errorf("config %s: %w; give its full path", name, err)
	}
	root := filepath.VolumeName(abs) + string(filepath.Separator)
	l := &loader{
		fsys: os.DirFS(root), root: root, config: within(root, abs), shown: filepath.ToSlash(name), opt: opt, more: map[string]string{},
	}
	for _, file := range opt.More {
		abs, err := filepath.Abs(file)
		if err != nil {
			return nil, fmt.Errorf("policy file %s: %w; give its full path", file, err)
		}
		l.more[within(root, abs)] = filepath.ToSlash(file)
	}
	return l, nil
}

// within is a full path as the file system of its volume has it.
func within(root, abs string) string {
	return filepath.ToSlash(strings.TrimPrefix(abs, root))
}

// begin makes the loader forget the load before, but not the files that it has seen.
func (l *loader) begin() {
	l.r = strictyaml.NewReport()
	l.rooted = map[string]bool{}
	l.globs = nil
	l.sums = map[string]sum{}
	if l.seen == nil {
		l.seen = map[string]seenFile{}
	}
	if l.clock == nil {
		l.clock = time.Now
	}
}

// show is the user's name of a file: relative to the config file's name as it was given, or absolute as its glob is.
func (l *loader) show(name string) string {
	if shown, given := l.more[name]; given {
		return shown
	}
	if l.rooted[name] {
		return "/" + name
	}
	rel, err := filepath.Rel(filepath.FromSlash(path.Dir(l.config)), filepath.FromSlash(name))
	if err != nil {
		return name
	}
	return path.Join(path.Dir(l.shown), filepath.ToSlash(rel))
}

// seenFile is a loader's memory of a file, so that an unchanged one is neither read nor parsed again.
type seenFile struct {
	sum sum
	// stamp tells this content from any other while trusted lasts; the zero stamp does not.
	stamp   disk.Stamp
	trusted time.Time
	sheet   // of a policy file in which there was nothing wrong; has no tenants if there is none
}

// sum is a digest of one file, or of all that one load has read.
type sum [sha256.Size]byte
