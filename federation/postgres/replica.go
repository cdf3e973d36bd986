package postgres

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"hash"
	"sync"

	"github.com/llmgov/llmgov/federation"
)

// account is a pool's or an owner's account, as a log has it.
type account interface {
	// take takes in a beat of the log, and keeps the answer.
	take(e *entry) error
	// encode writes the account down as the beginning of a log.
	encode() ([]byte, error)
	// at is the latest time that the account has seen.
	at() int64
}

// replica is an account as this process worked it out of a log. The zero value is of no log.
type replica[A account] struct {
	plain    bool // nothing is to be appended to the row: it cannot be used, or is an account of a pool
	unlogged bool // the row was an account when it was last read, which is to become a log
	account  A
	length   int       // of the log that was read; 0 if nothing is known
	begins   int       // how much of it is the account at its beginning
	last     int       // how much of it is the last beat, which is this process's own
	sum      hash.Hash // of the log that was read
}

// nothing is a replica of no log.
func nothing[A account]() *replica[A] { return &replica[A]{sum: sha256.New()} }

// plainRow is a replica of a row to which nothing may be appended.
func plainRow[A account]() *replica[A] { return &replica[A]{plain: true, sum: sha256.New()} }

// begin reads the beginning of a row, and returns the rest. A row that is no log is an account, and has no rest.
func (k *replica[A]) begin(row []byte, decode func([]byte) (A, error)) (rest []byte, err error) {
	begin, rest, _ := bytes.Cut(row, mark)
	k.account, err = decode(begin)
	if err != nil {
		return nil, err
	}
	k.begins = len(row) - len(rest)
	k.length = k.begins
	k.sum.Write(row[:k.begins])
	return rest, nil
}

// follow takes in beats of a log.
func (k *replica[A]) follow(beats []byte) error {
	k.length += len(beats)
	k.sum.Write(beats)
	for len(beats) > 0 {
		k.last = len(beats)
		var e entry
		rest, err := e.read(beats)
		if err != nil {
			return err
		}
		if err := k.account.take(&e); err != nil {
			return fmt.Errorf("%w (%w)", federation.ErrDamaged, err)
		}
		beats = rest
	}
	return nil
}

// long reports whether a log has so many beats that it should begin later, and this process is to see to that: it is, if
// its own beat was the one too many, or if the one whose beat that was did not. Else all would send the account at the same time.
func (k *replica[A]) long(least int) bool {
	most := max(k.begins, least)
	beats := k.length - k.begins
	return beats > most && (beats-k.last <= most || beats > 3*most)
}

// later is a log that begins with the account as it is, and the replica of that.
func (k *replica[A]) later() ([]byte, *replica[A], error) {
	text, err := beginLog(k.account)
	if err != nil {
		return nil, nil, err
	}
	next := nothing[A]()
	next.account = k.account
	next.length = len(text)
	next.begins = len(text)
	next.sum.Write(text)
	return text, next, nil
}

// replicas are the replicas of a table's rows, by row.
type replicas[A account] struct {
	mu  sync.Mutex
	all map[string]*replica[A] // guarded by mu
}

// take returns what is known of a row, for one reader alone.
func (r *replicas[A]) take(row string) *replica[A] {
	r.mu.Lock()
	defer r.mu.Unlock()
	k := r.all[row]
	if k == nil {
		return nothing[A]()
	}
	if !k.plain {
		delete(r.all, row)
	}
	return k
}

func (r *replicas[A]) put(row string, k *replica[A]) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all[row] = k
}

// forget forgets the rows that were last read before a time of the server, but not those to which nothing may be appended.
func (r *replicas[A]) forget(before int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for row, k := range r.all {
		if k.plain {
			continue
		}
		if k.length == 0 || k.account.at() < before {
			delete(r.all, row)
		}
	}
}
