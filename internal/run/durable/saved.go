package durable

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/llmgov/llmgov/federation/spend"
	"github.com/llmgov/llmgov/governor/record"
)

// saved is books.db: the usage of budgets as of the beginning of a segment, and the state of pools as of about then.
type saved struct {
	db  *bolt.DB
	log *slog.Logger
	// gateway is the folder's own name, by which a store knows its account of spend.
	gateway string
}

var (
	bucketMeta, bucketUses = []byte("meta"), []byte("uses")
	bucketLives            = []byte("lives") // what uses are in all, apart from the periods that earlier releases read
	keyFormat, keySince    = []byte("format"), []byte("since")
	keyShares, keyLimits   = []byte("shares"), []byte("limits")
	keyWindows, keyLearned = []byte("windows"), []byte("learned")
	bucketSpend, keyUntold = []byte("spend"), []byte("untold")
	keyGateway             = []byte("gateway")
)

const (
	format = 1
	// lockPatience is the time that another process has to end.
	lockPatience = 2 * time.Second
)

// windows are the fields of record.Saved that say what was used of tenants' limits over long times, and when.
type windows struct {
	At      time.Time
	Windows []record.OwnerWindows
}

// learned is what earlier calls have taught. Nothing promised depends on it.
type learned struct {
	Format    int                       `json:"format"`
	Lengths   map[string]record.Lengths `json:"lengths"`
	Estimates json.RawMessage           `json:"estimates,omitempty"`
	Upstreams json.RawMessage           `json:"upstreams,omitempty"`
}

const learnedFormat = 1

// readLearned adds what was learned to a past. What cannot be read is logged and learned anew.
func (s *saved) readLearned(text []byte, past *record.Past) {
	var l learned
	err := json.Unmarshal(text, &l)
	if err == nil && l.Format != learnedFormat {
		err = fmt.Errorf("durable: it is of format %d, not %d", l.Format, learnedFormat)
	}
	if err != nil {
		s.log.Warn("state_dir: what was learned of lengths cannot be read, and is learned anew", "file", s.db.Path(), "error", err)
		return
	}
	past.Lengths = l.Lengths
	past.Estimates = l.Estimates
	past.Upstreams = l.Upstreams
}

func openSaved(dir, path string, log *slog.Logger) (s *saved, err error) {
	defer damaged(path, &err)
	db, err := bolt.Open(path, 0o600, &bolt.Options{Timeout: lockPatience})
	if errors.Is(err, bolterrors.ErrTimeout) {
		return nil, fmt.Errorf("durable: state_dir %s is in use by another process: stop that one, or give this one a folder of its own", dir)
	}
	if err != nil {
		return nil, fmt.Errorf("durable: %s: %w", path, err)
	}
	return &saved{db: db, log: log, gateway: rand.Text()}, nil
}

// damaged turns a panic of bbolt over an invalid page into an error, because bbolt checks
// pages only when it reads them.
func damaged(path string, err *error) {
	if cause := recover(); cause != nil {
		*err = fmt.Errorf("durable: %s is damaged: %v: %s", path, cause, whatToDo)
	}
}

// spendChange is what changes in the account of spend. Rows of days from untold on may be unknown to the store of all gateways, and those
// before the oldest day are deleted.
type spendChange struct {
	rows           map[spend.Key]spend.Sum
	untold, oldest string
}

func (c *spendChange) save(tx *bolt.Tx) error {
	rows, err := tx.CreateBucketIfNotExists(bucketSpend)
	if err != nil {
		return err
	}
	for k, sum := range c.rows {
		if err := rows.Put(spendKey(k), appendSum(nil, sum)); err != nil {
			return err
		}
	}
	at := rows.Cursor()
	for k, _ := at.First(); k != nil && string(k[:min(len(k), len(c.oldest))]) < c.oldest; k, _ = at.Next() {
		if err := at.Delete(); err != nil {
			return err
		}
	}
	return tx.Bucket(bucketMeta).Put(keyUntold, []byte(c.untold))
}

// spendKey begins with the day, so that days are in their order.
func spendKey(k spend.Key) []byte {
	return appendText(appendText(appendText([]byte(k.Day), k.Tenant), k.Model), k.Upstream)
}

// eachSpent calls each with the saved rows from some day on, in the order of days, until it is false.
func eachSpent(tx *bolt.Tx, from string, each func(spend.Row) bool) error {
	rows := tx.Bucket(bucketSpend)
	if rows == nil {
		return nil // no call was counted yet
	}
	at := rows.Cursor()
	for k, v := at.Seek([]byte(from)); k != nil; k, v = at.Next() {
		var r spend.Row
		day := min(len(k), len(time.DateOnly))
		r.Day = string(k[:day])
		key := reader{b: k[day:]}
		for _, text := range [...]*string{&r.Tenant, &r.Model, &r.Upstream} {
			*text = key.text()
		}
		val := reader{b: v}
		val.sum(&r.Sum)
		if key.bad || val.bad {
			return errRecord
		}
		if !each(r) {
			break
		}
	}
	return nil
}

// SpendRows calls each with the rows of the account of spend of some days, such as 2027-01-31, both included, until ctx ends.
func (j *Journal) SpendRows(ctx context.Context, from, to string, each func(spend.Row)) error {
	first := j.spend.Rows(from, to, each)
	err := j.books.db.View(func(tx *bolt.Tx) error {
		return eachSpent(tx, from, func(r spend.Row) bool {
			if r.Day >= first || r.Day > to || ctx.Err() != nil {
				return false
			}
			each(r)
			return true
		})
	})
	return cmp.Or(err, ctx.Err())
}

// load adds the saved books to a past and to an account of spend, and returns the number of the segment at whose
// beginning they were saved.
func (s *saved) load(past *record.Past, account *spend.Book) (since uint64, err error) {
	defer damaged(s.db.Path(), &err)
	err = s.db.View(func(tx *bolt.Tx) error {
		meta := tx.Bucket(bucketMeta)
		uses := tx.Bucket(bucketUses)
		if meta == nil || uses == nil {
			return nil // a new folder
		}
		if v := number(meta.Get(keyFormat)); v != format {
			return fmt.Errorf("it has format %d, and this version reads %d", v, format)
		}
		since = number(meta.Get(keySince))
		for _, part := range []struct {
			key  []byte
			into any
		}{{keyShares, &past.Shares}, {keyLimits, &past.Limits}, {keyWindows, &past.Saved}} {
			if text := meta.Get(part.key); text != nil {
				if err := json.Unmarshal(text, part.into); err != nil {
					return err
				}
			}
		}
		if text := meta.Get(keyLearned); text != nil {
			s.readLearned(text, past)
		}
		if name := meta.Get(keyGateway); name != nil {
			s.gateway = string(name)
		}
		if from := meta.Get(keyUntold); from != nil {
			account.Begin(string(from))
			if err := eachSpent(tx, string(from), func(r spend.Row) bool { account.Load(r); return true }); err != nil {
				return err
			}
		}
		lives := tx.Bucket(bucketLives)
		return uses.ForEach(func(k, v []byte) error {
			var life []byte
			if lives != nil {
				life = lives.Get(k)
			}
			who, use, err := readUse(k, v, life)
			if err == nil {
				past.Uses.Set(who, use)
			}
			return err
		})
	})
	if err != nil {
		return 0, fmt.Errorf("durable: %s: %w: %s", s.db.Path(), err, whatToDo)
	}
	return since, nil
}

// save writes the changed books, and the number of the segment at whose beginning they are valid. What was learned and cannot be
// written is logged, and left as it was.
func (s *saved) save(since uint64, changed map[record.Owner]record.Use, account spendChange, pools record.Saved) error {
	shares, err := json.Marshal(pools.Shares)
	if err != nil {
		return err
	}
	limits, err := json.Marshal(pools.Limits)
	if err != nil {
		return err
	}
	used, err := json.Marshal(windows{pools.At, pools.Windows})
	if err != nil {
		return err
	}
	taught, err := json.Marshal(learned{learnedFormat, pools.Lengths, pools.Estimates, pools.Upstreams})
	if err != nil {
		s.log.Warn("state_dir: what was learned of calls cannot be written, and stays as it was saved before", "file", s.db.Path(), "error", err)
	}
	return s.db.Update(func(tx *bolt.Tx) error {
		meta, err := tx.CreateBucketIfNotExists(bucketMeta)
		if err != nil {
			return err
		}
		uses, err := tx.CreateBucketIfNotExists(bucketUses)
		if err != nil {
			return err
		}
		lives, err := tx.CreateBucketIfNotExists(bucketLives)
		if err != nil {
			return err
		}
		for who, use := range changed {
			k, v, life := useBytes(who, use)
			if use == (record.Use{}) {
				err = errors.Join(uses.Delete(k), lives.Delete(k))
			} else {
				err = errors.Join(uses.Put(k, v), lives.Put(k, life))
			}
			if err != nil {
				return err
			}
		}
		if taught != nil {
			if err := meta.Put(keyLearned, taught); err != nil {
				return err
			}
		}
		return errors.Join(
			meta.Put(keyFormat, binary.LittleEndian.AppendUint64(nil, format)),
			meta.Put(keySince, binary.LittleEndian.AppendUint64(nil, since)),
			meta.Put(keyShares, shares),
			meta.Put(keyLimits, limits),
			meta.Put(keyWindows, used),
			meta.Put(keyGateway, []byte(s.gateway)),
			account.save(tx),
		)
	})
}

func number(b []byte) uint64 {
	if len(b) != 8 {
		return 0
	}
	return binary.LittleEndian.Uint64(b)
}

// useBytes are the name of a use, its calendar periods, and its life.
func useBytes(who record.Owner, use record.Use) (k, v, life []byte) {
	k = append(appendText(nil, who.Tenant), who.Pool...)
	for per, start := range use.Start {
		row := binary.AppendVarint(nil, start)
		for _, n := range use.Used[per] {
			row = binary.AppendVarint(row, n)
		}
		if per == len(use.Start)-1 {
			life = row
		} else {
			v = append(v, row...)
		}
	}
	return k, v, life
}

func readUse(k, v, life []byte) (record.Owner, record.Use, error) {
	key := reader{b: k}
	who := record.Owner{Tenant: key.text()}
	who.Pool = string(key.b)
	var use record.Use
	val := reader{b: v}
	for per := range use.Start {
		if per == len(use.Start)-1 { // its life
			if len(val.b) > 0 {
				return who, use, errRecord
			}
			if life == nil { // of an earlier release
				break
			}
			val = reader{b: life, bad: val.bad}
		}
		use.Start[per] = val.varint()
		for i := range use.Used[per] {
			use.Used[per][i] = val.varint()
		}
	}
	if key.bad || val.bad || len(val.b) > 0 {
		return who, use, errRecord
	}
	return who, use, nil
}
