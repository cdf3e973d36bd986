package decisions

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// files are a file that is appended to, and its older ones: path.1 is the youngest.
type files struct {
	path string
	max  int64
	keep int
	file *os.File
	size int64
	torn bool // the last line may have no end
}

func openFiles(path string, limit int64, keep int) (*files, error) {
	f := &files{path: path, max: limit, keep: keep}
	if err := f.open(); err != nil {
		return nil, err
	}
	return f, nil
}

func (f *files) open() error {
	file, err := os.OpenFile(f.path, os.O_APPEND|os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if err != nil {
		return errors.Join(err, file.Close())
	}
	if info.Mode().IsRegular() {
		if err := lock(file); err != nil {
			return errors.Join(err, file.Close())
		}
	}
	f.file = file
	f.size = 0
	f.torn = false
	if info.Mode().IsRegular() && info.Size() > 0 {
		last := []byte{0}
		if _, err := file.ReadAt(last, info.Size()-1); err != nil {
			return errors.Join(err, file.Close())
		}
		// the previous process was killed
		f.size = info.Size()
		f.torn = last[0] != '\n'
	}
	return nil
}

// write appends lines.
func (f *files) write(lines []byte) error {
	if f.torn {
		lines = append([]byte{'\n'}, lines...)
	}
	n, err := f.file.Write(lines)
	f.size += int64(n)
	if n > 0 {
		f.torn = !bytes.HasSuffix(lines[:n], []byte{'\n'})
	}
	return err
}

// makeRoom begins another file, with a head, if n more bytes exceed the size of this one.
func (f *files) makeRoom(n int64, head func() []byte) error {
	if f.size == 0 || f.size+n <= f.max {
		return nil
	}
	for i := f.keep; i > 0; i-- {
		older := f.path
		if i > 1 {
			older = fmt.Sprint(f.path, ".", i-1)
		}
		if err := os.Rename(older, fmt.Sprint(f.path, ".", i)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if f.keep == 0 {
		if err := os.Remove(f.path); err != nil {
			return err
		}
	}
	old := f.file
	if err := f.open(); err != nil {
		return err // further lines go to the old file, whatever its name is now
	}
	return errors.Join(old.Close(), f.write(head()))
}

func (f *files) close() error {
	err := f.file.Sync()
	if errors.Is(err, syscall.EINVAL) {
		err = nil // a pipe or a device
	}
	return errors.Join(err, f.file.Close())
}
