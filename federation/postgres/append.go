package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// longest is up to which length anything is appended to a row. Logs begin later long before.
const longest = 64 << 20

// server says what transactions ask and set of the server, in SQL: its clock and name, and their limits.
type server struct{ clock, incarnation, limits string }

// logs are the rows of a table that are logs, as far as this process knows them.
type logs[A account] struct {
	replicas[A]
	*server
	table  *table
	empty  []byte // the log of no beats
	decode func(begin []byte) (A, error)
}

// newLogs returns the logs of a table, of which nothing is known. New ones begin with an empty account.
func newLogs[A account](s *server, t *table, empty A, decode func([]byte) (A, error)) (*logs[A], error) {
	text, err := beginLog(empty)
	if err != nil {
		return nil, err
	}
	return &logs[A]{replicas: replicas[A]{all: map[string]*replica[A]{}}, server: s, table: t, empty: text, decode: decode}, nil
}

// read works out the account of a whole row.
func (l *logs[A]) read(row []byte) (*replica[A], error) {
	k := nothing[A]()
	beats, err := k.begin(row, l.decode)
	if err != nil {
		return nil, err
	}
	return k, k.follow(beats)
}

// letter is a beat to a row.
type letter struct {
	row  string
	beat any
	// A row of an owner is kept for so many milliseconds after the beat, and until a time; see parts.Beat.Kept.
	lasts, ends int64
}

// columns are the parameters of a statement for several rows, each of which is to begin as it was read.
type columns struct {
	rows        []string
	lengths     []int32
	sums, texts [][]byte
	lasts, ends []int64
}

func (c *columns) add(row string, length int, sum, text []byte) {
	c.rows = append(c.rows, row)
	c.lengths = append(c.lengths, int32(length))
	c.sums = append(c.sums, sum)
	c.texts = append(c.texts, text)
}

// appending is a batch that appends beats to logs.
type appending[A account] struct {
	known map[string]*replica[A]
	fresh []string // rows of which nothing is known
	long  columns  // logs that are to begin later
	beats columns
}

// prepare prepares to append beats to rows, unless those are known to be no logs.
func (l *logs[A]) prepare(letters []letter) (*appending[A], error) {
	a := &appending[A]{known: map[string]*replica[A]{}}
	slices.SortFunc(letters, func(x, y letter) int { return strings.Compare(x.row, y.row) }) // as rows are created and locked
	for _, m := range letters {
		beat, err := encodeBeat(m.beat)
		if err != nil {
			return nil, err
		}
		k := l.take(m.row)
		switch {
		case k.plain:
			continue
		case k.length == 0:
			a.fresh = append(a.fresh, m.row)
		case k.unlogged, k.long(l.table.least):
			text, later, err := k.later()
			if err != nil {
				return nil, err
			}
			a.long.add(m.row, k.length, k.sum.Sum(nil), text)
			k = later
		}
		a.known[m.row] = k
		a.beats.add(m.row, k.length, k.sum.Sum(nil), beat)
		a.beats.lasts = append(a.beats.lasts, m.lasts)
		a.beats.ends = append(a.beats.ends, m.ends)
	}
	return a, nil
}

// append appends beats to rows, in the order of which these are locked, and works out the accounts from all that stands there by then. It takes
// one round trip, and rows are locked for no longer than the server takes. It returns the replicas that end with these beats, which have to
// be put back; rows that are no logs have none, and neither do those that cannot be read, to which nothing is appended any more. create creates
// the rows that are not there. also adds to the batch, and may be nil.
func (l *logs[A]) append(ctx context.Context, conn *pgxpool.Conn, letters []letter, create bool, also func(*pgx.Batch)) (map[string]*replica[A], error) {
	a, err := l.prepare(letters)
	if err != nil || len(a.known) == 0 {
		return nil, err
	}
	var batch pgx.Batch
	batch.Queue(begin)
	batch.Queue(l.limits)
	if create && len(a.fresh) > 0 {
		batch.Queue(l.table.create(), a.fresh, l.empty)
	}
	if len(a.known) > 1 {
		batch.Queue(l.table.lock(), a.beats.rows)
	}
	if c := &a.long; len(c.rows) > 0 {
		batch.Queue(l.table.shorten(), c.rows, c.lengths, c.sums, c.texts)
	}
	c := &a.beats
	var all []appended
	batch.Queue(l.table.appendTo(l.server), c.rows, c.lengths, c.sums, c.texts, c.lasts, c.ends, mark, longest).Query(func(rows pgx.Rows) (err error) {
		all, err = pgx.CollectRows(rows, pgx.RowToStructByPos[appended])
		return err
	})
	if also != nil {
		also(&batch)
	}
	batch.Queue("COMMIT")
	if err := conn.SendBatch(ctx, &batch).Close(); err != nil {
		for row, k := range a.known {
			l.put(row, k)
		}
		return nil, err
	}
	return l.follow(a.known, all), nil
}

// appended is a row to which a beat was appended. Rest is what has been added since it was read; or all of it, if it does not begin as it was read any more.
type appended struct {
	Row    string
	Length int
	Rest   []byte
}

// follow works out the accounts of rows, and marks those of which it cannot.
func (l *logs[A]) follow(known map[string]*replica[A], all []appended) map[string]*replica[A] {
	done := make(map[string]*replica[A], len(all))
	for _, x := range all {
		k := known[x.Row]
		var err error
		if len(x.Rest) == x.Length {
			k, err = l.read(x.Rest)
		} else {
			err = k.follow(x.Rest)
		}
		if err != nil {
			l.put(x.Row, plainRow[A]())
			continue
		}
		done[x.Row] = k
	}
	return done
}

// create creates rows that are not there, with a log of no beats.
func (t *table) create() string {
	return fmt.Sprintf("INSERT INTO %s SELECT unnest($1::text[]), $2::bytea, %s ON CONFLICT DO NOTHING", t.name, t.began)
}

// lock locks rows in the order of their names. All do it in this order, so that no two wait for each other.
func (t *table) lock() string {
	return fmt.Sprintf(`SELECT FROM %s WHERE %s = ANY($1::text[]) ORDER BY %[2]s COLLATE "C" FOR UPDATE`, t.name, t.key)
}

// shorten makes logs begin later that are still as they were read.
func (t *table) shorten() string {
	return fmt.Sprintf(`UPDATE %s t SET account = d.text || substr(t.account, d.length + 1)
		FROM unnest($1::text[], $2::int[], $3::bytea[], $4::bytea[]) AS d (row, length, sum, text)
		WHERE t.%s = d.row AND sha256(substr(t.account, 1, d.length)) = d.sum`, t.name, t.key)
}

// isLog is whether a row is a log. Its parameter is the mark.
func isLog(mark string) string {
	return fmt.Sprintf("substr(account, octet_length(account) - octet_length(%s::bytea) + 1) = %[1]s::bytea", mark)
}

// appendTo appends beats to those rows that are logs.
func (t *table) appendTo(s *server) string {
	return fmt.Sprintf(`UPDATE %s t SET %s, account = t.account || int8send(%[3]s)
			|| int4send(octet_length(d.beat)) || d.beat || convert_to(%[4]s, 'UTF8') || $7::bytea
		FROM unnest($1::text[], $2::int[], $3::bytea[], $4::bytea[], $5::bigint[], $6::bigint[]) AS d (row, length, sum, beat, lasts, ends)
		WHERE t.%[5]s = d.row AND octet_length(t.account) < $8::int AND %[6]s
		RETURNING t.%[5]s, octet_length(t.account),
			CASE WHEN sha256(substr(t.account, 1, d.length)) = d.sum THEN substr(t.account, d.length + 1) ELSE t.account END`,
		t.name, strings.ReplaceAll(t.stamp, "%s", s.clock), s.clock, s.incarnation, t.key, isLog("$7"))
}
