package durable

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/llmgov/llmgov/federation/spend"
	"github.com/llmgov/llmgov/governor/record"
)

const (
	segmentPrefix = "journal-"
	nextSegment   = "journal.next" // the temporary name of a new segment
)

func segmentPath(dir string, n uint64) string {
	return filepath.Join(dir, fmt.Sprintf("%s%08d", segmentPrefix, n))
}

// segments lists the numbers of a folder's segments, in order.
func segments(dir string) ([]uint64, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var out []uint64
	for _, e := range entries {
		if text, ok := strings.CutPrefix(e.Name(), segmentPrefix); ok {
			if n, err := strconv.ParseUint(text, 10, 64); err == nil {
				out = append(out, n)
			}
		}
	}
	slices.Sort(out)
	return out, nil
}

// readSegment calls each with every record of a file, and spent with every addition to the account of spend, and returns the number of
// good bytes.
// The bytes after them are a partial record from the end of the machine or the process: it
// may be at the end of the newest segment and, after a loss of power, of the previous one.
func readSegment(path string, newest bool, each func(*record.Record), spent func(spend.Row)) (good int64, err error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	if newest && len(bytes.Trim(b, "\x00")) == 0 {
		return 0, nil // not even its header was written
	}
	if len(b) < len(header) || string(b[:len(header)]) != header {
		return 0, fmt.Errorf("durable: %s is not a journal of this version: %s", path, whatToDo)
	}
	at := len(header)
	for at < len(b) {
		if row, ok := readSpent(payloadOf(b[at:])); ok {
			spent(row)
			at += frameBytes + len(payloadOf(b[at:]))
			continue
		}
		r, n, err := readFrame(b[at:])
		switch {
		case err == nil:
			each(&r)
			at += n
		case newest && !anyFrame(b[at+1:]):
			return int64(at), nil
		default:
			return 0, fmt.Errorf("durable: %s is damaged at byte %d, in its middle: the file was changed, or the disk fails: %s", path, at, whatToDo)
		}
	}
	return int64(at), nil
}

// cutOff truncates a segment to its good bytes.
func cutOff(path string, good int64) error {
	if good == 0 {
		return os.Remove(path)
	}
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Truncate(good), f.Sync(), f.Close())
}

const whatToDo = "restore the folder from a copy, or move it away: llmgov then starts without a past, " +
	"budgets start at zero, and the provider's limits may be exceeded for a minute"

// anyFrame reports whether a valid record begins anywhere in b.
func anyFrame(b []byte) bool {
	for at := range b {
		if payloadOf(b[at:]) != nil {
			return true
		}
	}
	return false
}
