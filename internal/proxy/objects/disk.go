package objects

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// disk is objects.db. Keys are upstream, a zero byte, id; values are kind, time and
// owner, and after a zero byte each a model, a size, and what a batch of it may take. What fades is indexed by time, so that the oldest is found without a search.
type disk struct{ db *bolt.DB }

var (
	bucketMeta, bucketKept   = []byte("meta"), []byte("kept")
	bucketFading, bucketAges = []byte("fading"), []byte("ages")
	keyFormat                = []byte("format")
)

const (
	format = 1
	// lockPatience is how long another process may take to end.
	lockPatience = 2 * time.Second
	// sweep is how many old entries a write removes at most.
	sweep = 1000
)

func openDisk(dir string) (d *disk, err error) {
	path := filepath.Join(dir, "objects.db")
	defer damaged(path, &err)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("objects: %w", err)
	}
	db, err := bolt.Open(path, 0o600, &bolt.Options{Timeout: lockPatience})
	if errors.Is(err, bolterrors.ErrTimeout) {
		return nil, fmt.Errorf("objects: %s is in use by another process: stop that one, or give this one a folder of its own", path)
	}
	if err != nil {
		return nil, fmt.Errorf("objects: %s: %w", path, err)
	}
	db.MaxBatchDelay = 2 * time.Millisecond // a caller waits for it
	if err := db.Update(makeBuckets); err != nil {
		return nil, errors.Join(fmt.Errorf("objects: %s: %w", path, err), db.Close())
	}
	return &disk{db}, nil
}

func makeBuckets(tx *bolt.Tx) error {
	for _, name := range [][]byte{bucketMeta, bucketKept, bucketFading, bucketAges, bucketDebts} {
		if _, err := tx.CreateBucketIfNotExists(name); err != nil {
			return err
		}
	}
	meta := tx.Bucket(bucketMeta)
	if v := meta.Get(keyFormat); v != nil && (len(v) != 1 || v[0] != format) {
		return fmt.Errorf("it has format %d, and this version reads %d", v, format)
	}
	return meta.Put(keyFormat, []byte{format})
}

// damaged turns what bbolt panics with over a page that is none into an error.
func damaged(path string, err *error) {
	if cause := recover(); cause != nil {
		*err = fmt.Errorf("objects: %s is damaged: %v: put it aside to start without it; nobody then sees what was made before", path, cause)
	}
}

// load tells of all that does not fade.
func (d *disk) load(keep func(Key, Entry)) (err error) {
	defer damaged(d.db.Path(), &err)
	return d.db.View(func(tx *bolt.Tx) error {
		return tx.Bucket(bucketKept).ForEach(func(k, v []byte) error {
			upstream, id, ok := strings.Cut(string(k), "\x00")
			e, valid := parseEntry(v)
			if !ok || !valid {
				return fmt.Errorf("objects: %s: the entry %q is damaged: put the file aside to start without it", d.db.Path(), k)
			}
			keep(Key{upstream, id}, e)
			return nil
		})
	})
}

func (d *disk) get(key Key) (e Entry, ok bool) {
	_ = d.db.View(func(tx *bolt.Tx) error { // fails only when closed
		e, ok = parseEntry(tx.Bucket(bucketFading).Get(keyBytes(key)))
		return nil
	})
	return e, ok
}

// put writes one entry, together with others that come at the same time.
func (d *disk) put(key Key, e Entry) error {
	return d.db.Batch(func(tx *bolt.Tx) error { return putEntry(tx, key, e) })
}

func (d *disk) putAll(group map[Key]Entry) error {
	if len(group) == 0 {
		return nil
	}
	return d.db.Update(func(tx *bolt.Tx) error {
		for key, e := range group {
			if err := putEntry(tx, key, e); err != nil {
				return err
			}
		}
		return removeOld(tx, time.Now().Add(-fadesAfter))
	})
}

func putEntry(tx *bolt.Tx, key Key, e Entry) error {
	k := keyBytes(key)
	v := entryBytes(e)
	if !e.Kind.fades() {
		return tx.Bucket(bucketKept).Put(k, v)
	}
	return errors.Join(tx.Bucket(bucketFading).Put(k, v), tx.Bucket(bucketAges).Put(ageBytes(e.Made, k), nil))
}

// removeOld removes what was made before. Who was recorded again since has a newer age.
func removeOld(tx *bolt.Tx, before time.Time) error {
	fading := tx.Bucket(bucketFading)
	ages := tx.Bucket(bucketAges)
	var old [][]byte
	c := ages.Cursor()
	for k, _ := c.First(); k != nil && len(old) < sweep && int64(binary.BigEndian.Uint64(k)) < before.Unix(); k, _ = c.Next() {
		old = append(old, bytes.Clone(k))
	}
	for _, k := range old {
		if e, ok := parseEntry(fading.Get(k[8:])); ok && e.Made.Before(before) {
			if err := fading.Delete(k[8:]); err != nil {
				return err
			}
		}
		if err := ages.Delete(k); err != nil {
			return err
		}
	}
	return nil
}

func (d *disk) remove(key Key) error {
	return d.db.Batch(func(tx *bolt.Tx) error {
		k := keyBytes(key)
		return errors.Join(tx.Bucket(bucketKept).Delete(k), tx.Bucket(bucketFading).Delete(k))
	})
}

func (d *disk) close() error { return d.db.Close() }

func keyBytes(k Key) []byte { return []byte(k.Upstream + "\x00" + k.ID) }

func ageBytes(made time.Time, key []byte) []byte {
	return append(binary.BigEndian.AppendUint64(nil, uint64(made.Unix())), key...)
}

func entryBytes(e Entry) []byte {
	b := binary.BigEndian.AppendUint64([]byte{byte(e.Kind)}, uint64(e.Made.Unix()))
	b = append(b, e.Owner...)
	calls := e.Input != 0 || e.Output != 0
	if e.Model != "" || e.Size != 0 || calls {
		b = append(append(b, 0), e.Model...)
	}
	if e.Size != 0 || calls {
		b = strconv.AppendInt(append(b, 0), e.Size, 10)
	}
	if calls {
		b = strconv.AppendInt(append(b, 0), e.Input, 10)
		b = strconv.AppendInt(append(b, 0), e.Output, 10)
		b = strconv.AppendInt(append(b, 0), e.Calls, 10)
	}
	return b
}

func parseEntry(v []byte) (Entry, bool) {
	if len(v) < 10 {
		return Entry{}, false
	}
	fields := append(strings.Split(string(v[9:]), "\x00"), "", "", "", "", "")
	number := func(i int) int64 {
		n, _ := strconv.ParseInt(fields[i], 10, 64) // none is 0: not known
		return n
	}
	made := time.Unix(int64(binary.BigEndian.Uint64(v[1:9])), 0)
	return Entry{
		Kind: Kind(v[0]), Owner: fields[0], Made: made, Model: fields[1],
		Size: number(2), Input: number(3), Output: number(4), Calls: number(5),
	}, true
}
