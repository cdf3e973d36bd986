// Package disk finds files by globs, reads them in bounded size, and tells when something has happened in their folders.
package disk

import (
	"errors"
	"io"
	"io/fs"
	"os"
)

// ReadPlain is ReadLimited of regular files alone: somebody may have put a pipe there, for which it would wait for ever.
func ReadPlain(fsys fs.FS, name string, most int64) ([]byte, fs.FileInfo, error) {
	info, err := fs.Stat(fsys, name)
	if err != nil {
		return nil, nil, err
	}
	if !info.Mode().IsRegular() && !info.IsDir() {
		return nil, nil, errors.New("it is not a regular file")
	}
	return ReadLimited(fsys, name, most)
}

// ReadLimited reads at most one byte more than most bytes, for the parser to refuse.
func ReadLimited(fsys fs.FS, name string, most int64) ([]byte, fs.FileInfo, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	if info.IsDir() {
		return nil, nil, errors.New("it is a directory")
	}
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err != nil {
		return nil, nil, err
	}
	return data, info, nil
}

// Reason is err without the path, which messages give as the user typed it.
func Reason(err error) error {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return pe.Err
	}
	return err
}

// FS opens files by any name that the operating system takes; io/fs has no names that are absolute or go up.
type FS struct{}

// Open implements fs.FS.
func (FS) Open(name string) (fs.File, error) { return os.Open(name) }

// Stat implements fs.StatFS, since to open a pipe is to wait for it.
func (FS) Stat(name string) (fs.FileInfo, error) { return os.Stat(name) }
