package objects

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	bolt "go.etcd.io/bbolt"
)

// Debt is what an object that goes on by itself, such as a batch, will have taken when it
// is done: who is to be charged, and where.
type Debt struct {
	Kind               Kind
	Owner, Pool, Model string
	// Counted is the owner, or its member, in whose name the maker's calls count; "" in older files.
	Counted string `json:",omitempty"`
	// Input is the prompt as estimated, and Output what was streamed of the answer, for an
	// object that never tells.
	Input, Output int64
	// Bound is the most that the answer may have. Of a response, limits by the minute have booked that
	// already, like Input; of a batch, budgets hold both.
	Bound int64
	Calls int64 `json:",omitempty"` // of a batch
	// Size is a response's prompt as package tokens weighs it, beside Before tokens of earlier calls.
	Size   [9]int64
	Before int64
	// Text is how many tokens a sample of that prompt's text has, and what the sample weighs.
	Text [2]int64
	// Most is as much as its answer may have had when it is broken off.
	Most int64
	Made time.Time

	// Streams says that the answer is being streamed to its client, and Untold that the
	// object was seen gone meanwhile and told nothing. A restart ends all streams.
	Streams, Untold bool `json:"-"`
}

// Counts is in whose name it is charged.
func (d *Debt) Counts() string { return cmp.Or(d.Counted, d.Owner) }

// Owe records that an object is yet to be charged. When it returns without an error that
// outlives a crash. It is forgotten when the provider has forgotten the object.
func (s *Store) Owe(ctx context.Context, key Key, d Debt) error {
	if err := s.writable(ctx); err != nil {
		return err
	}
	d.Made = time.Now()
	if s.disk != nil {
		if err := s.disk.putDebt(key, d); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.debts[key] = d
	return nil
}

// Collect lets an object be charged. All who ask at once take turns, until charge reports
// true: then the debt is gone. Else it stays, with what charge changed. An error means that
// it may be asked for again, or without what was changed, after a restart.
func (s *Store) Collect(key Key, charge func(*Debt) bool) error {
	d, owed := s.turn(key)
	if !owed {
		return nil
	}
	defer s.turnOver(key) // also if charge panics: then the debt is as it was
	streamed := d.Output
	gone := charge(&d)
	s.mu.Lock()
	s.debts[key] = d
	if gone {
		delete(s.debts, key)
	}
	s.mu.Unlock()
	switch {
	case s.disk == nil:
	case gone:
		return s.disk.removeDebt(key)
	case d.Output != streamed:
		return s.disk.putDebt(key, d)
	}
	return nil
}

// turn waits until nobody else collects a debt, if it is there still then.
func (s *Store) turn(key Key) (d Debt, owed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.collecting[key] {
		s.collected.Wait()
	}
	d, owed = s.debts[key]
	if owed {
		s.collecting[key] = true
	}
	return d, owed
}

func (s *Store) turnOver(key Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.collecting, key)
	s.collected.Broadcast()
}

// Owes reports whether an object is yet to be charged.
func (s *Store) Owes(key Key) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	d, owed := s.debts[key]
	return owed && time.Since(d.Made) <= fadesAfter
}

// Debts are all objects of a kind that are yet to be charged.
func (s *Store) Debts(kind Kind) map[Key]Debt {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := map[Key]Debt{}
	for key, d := range s.debts {
		if d.Kind == kind {
			found[key] = d
		}
	}
	return found
}

// AnyDebt is one of an owner's debts of a kind at an upstream, if there are more than so
// many: no particular one, so that who asks again and again comes to all of them. It
// looks at all debts.
func (s *Store) AnyDebt(upstream string, kind Kind, owner string, beyond int) (found Key, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for key, d := range s.debts {
		switch {
		case key.Upstream != upstream || d.Kind != kind || d.Owner != owner:
		case time.Since(d.Made) > fadesAfter:
			delete(s.debts, key) // from the disk it goes with the next start
		default:
			n = n + 1
			found = key
		}
	}
	return found, n > beyond
}

var bucketDebts = []byte("debts")

func (d *disk) putDebt(key Key, debt Debt) error {
	value, err := json.Marshal(debt)
	if err != nil {
		return fmt.Errorf("objects: a debt cannot be written: %w", err)
	}
	return d.db.Batch(func(tx *bolt.Tx) error { return tx.Bucket(bucketDebts).Put(keyBytes(key), value) })
}

func (d *disk) removeDebt(key Key) error {
	return d.db.Batch(func(tx *bolt.Tx) error { return tx.Bucket(bucketDebts).Delete(keyBytes(key)) })
}

// loadDebts tells of all debts, and drops those whose objects are forgotten.
func (d *disk) loadDebts(debts map[Key]Debt) (err error) {
	defer damaged(d.db.Path(), &err)
	return d.db.Update(func(tx *bolt.Tx) error {
		bucket := tx.Bucket(bucketDebts)
		old := [][]byte{}
		err := bucket.ForEach(func(k, v []byte) error {
			upstream, id, ok := strings.Cut(string(k), "\x00")
			var debt Debt
			if err := json.Unmarshal(v, &debt); err != nil || !ok {
				return fmt.Errorf("objects: %s: the debt %q is damaged: put the file aside to start without it", d.db.Path(), k)
			}
			if time.Since(debt.Made) > fadesAfter {
				old = append(old, []byte(string(k)))
				return nil
			}
			debts[Key{upstream, id}] = debt
			return nil
		})
		for _, k := range old {
			err = errors.Join(err, bucket.Delete(k))
		}
		return err
	})
}
