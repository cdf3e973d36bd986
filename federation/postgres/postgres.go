package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/llmgov/llmgov/federation"
)

// The tables.
const (
	poolsTable table = "llmgov_pools"
	partsTable table = "llmgov_parts"
)

// Store is a runner.Store, and keeps parts of owners' limits as well.
type Store struct {
	db       *pgxpool.Pool
	askDB    *pgxpool.Pool // for calls that ask
	rules    federation.Rules
	empty    []byte // the log of no beats
	replicas replicas
	swept    atomic.Int64 // when to look for owners that are forgotten next, by the server's clock
	// clock and incarnation are expressions of SQL.
	clock, incarnation string
}

const (
	// connections are few: a pool has one beat under way at a time. But while the server is silent each beat leaves a
	// connection behind that is being made, for up to connectTimeout. Calls that ask have others, or beats would wait for them.
	connections    = 8
	askConnections = 16
	// connectTimeout suffices for the six round trips of a connection with TLS and a password, to a server that is far.
	connectTimeout = 5 * time.Second

	serverClock = `floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint`
	// The timeline is that of the log that is written now: what the last checkpoint says
	// may be of before a promotion.
	serverIncarnation = `(SELECT system_identifier FROM pg_control_system())::text || '/' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)`
)

// Open returns a store at a URL, such as postgres://user:password@host/database. It does
// not connect: a server that cannot be reached is an error of each Beat.
func Open(url string, r federation.Rules) (*Store, error) {
	cfg, err := parse(url)
	if err != nil {
		return nil, err
	}
	empty, err := newLog(federation.NewAccount(r, 0, federation.Options{}))
	if err != nil {
		return nil, err
	}
	cfg.MaxConns = connections
	cfg.ConnConfig.ConnectTimeout = connectTimeout
	// No ping before a beat, which would be a round trip more: a beat that fails is followed by another soon.
	cfg.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false }
	// No prepared statements: poolers that hand connections on would lose them.
	cfg.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
	db, err := pgxpool.NewWithConfig(context.Background(), cfg)
	if err != nil {
		return nil, fmt.Errorf("postgres: %w", err)
	}
	asks := cfg.Copy()
	asks.MaxConns = askConnections
	asks.ShouldPing = nil // as usual, because a call that fails is refused
	askDB, err := pgxpool.NewWithConfig(context.Background(), asks)
	if err != nil {
		db.Close()
		return nil, fmt.Errorf("postgres: %w", err)
	}
	return &Store{db: db, askDB: askDB, rules: r, empty: empty, replicas: replicas{all: map[string]*replica{}}, clock: serverClock, incarnation: serverIncarnation}, nil
}

// Check says what is wrong with a URL for Open.
func Check(url string) error {
	_, err := parse(url)
	return err
}

// Server is the server that a URL names, as host:port; empty if it names none.
func Server(url string) string {
	cfg, err := parse(url)
	if err != nil {
		return ""
	}
	return net.JoinHostPort(cfg.ConnConfig.Host, strconv.Itoa(int(cfg.ConnConfig.Port)))
}

func parse(url string) (*pgxpool.Config, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, errors.New("postgres: " + withoutAddress(err))
	}
	return cfg, nil
}

// withoutAddress is an error of pgx without the address, from which pgx takes the password before the host, but not
// those of the query.
func withoutAddress(err error) string {
	text := err.Error()
	if _, isParse := errors.AsType[*pgconn.ParseConfigError](err); isParse {
		text = text[strings.LastIndex(text, "`: ")+len("`: "):]
	}
	return "the address (not shown) cannot be parsed: " + text
}

// Close ends all connections. Nothing may be under way.
func (s *Store) Close() {
	s.askDB.Close()
	s.db.Close()
}

// Beat implements runner.Store.
func (s *Store) Beat(ctx context.Context, pool string, b *federation.Beat) (federation.Reply, error) {
	var reply federation.Reply
	err := poolsTable.with(ctx, s.db, func(conn *pgxpool.Conn) (err error) {
		known := s.replicas.take(pool)
		appended := false
		if !known.plain {
			reply, appended, err = s.append(ctx, conn, known, pool, b)
		}
		if err == nil && !appended {
			reply, err = s.rewrite(ctx, conn, pool, b)
		}
		return err
	})
	if err != nil {
		return federation.Reply{}, fmt.Errorf("postgres: %w", err)
	}
	return reply, nil
}

// rewrite takes in a beat while it has locked the pool's row, which takes two round trips. It makes a log of the row as soon as
// all gateways of the pool can read that.
func (s *Store) rewrite(ctx context.Context, conn *pgxpool.Conn, pool string, b *federation.Beat) (federation.Reply, error) {
	row, err := s.lock(ctx, conn, pool)
	if err != nil {
		return federation.Reply{}, err
	}
	a, err := row.read(s.rules)
	if err != nil {
		return federation.Reply{}, unusable(err, poolsTable, "pool", pool)
	}
	reply := a.Beat(row.now, row.incarnation, b.Expect, b)
	plain := reply.Status != federation.Granted || !a.Alike() // others may be about to come
	next := nothing()
	next.plain = plain
	s.replicas.put(pool, next)
	encode := newLog
	if plain {
		encode = (*federation.Account).Encode
	}
	account, err := encode(a)
	if err != nil {
		return federation.Reply{}, err
	}
	return reply, write(ctx, conn, pool, account)
}

// row is a pool's row, and what the server says beside it.
type row struct {
	account     []byte // empty of a pool that is new
	now         int64
	incarnation string
}

func (w *row) read(r federation.Rules) (*federation.Account, error) {
	if len(w.account) == 0 {
		return federation.NewAccount(r, w.now, federation.Options{Incarnation: w.incarnation}), nil
	}
	k := nothing()
	beats, err := k.begin(w.account, r)
	if err != nil {
		return nil, err
	}
	_, err = k.follow(beats)
	return k.account, err
}

// unusable says how to get rid of an account that cannot be read.
func unusable(err error, t table, column, name string) error {
	return fmt.Errorf("%w; if no gateway of another release uses it, delete it (DELETE FROM %s WHERE %s = '%s'); then nothing is granted until it is known again what was used",
		err, t, column, strings.ReplaceAll(name, "'", "''"))
}

// begin begins a transaction, whatever the database has for default. Its statements see what others wrote that they waited for.
const begin = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"

// limits bound how long a transaction may stand in the way of others, and see to it that
// what is committed is on the disk. A transaction is not idle while the rest of a batch is on its way, so the server
// also has to ask whether the other side is still there.
const limits = `SELECT set_config('idle_in_transaction_session_timeout', '1500', true),
	set_config('tcp_keepalives_idle', '1', true), set_config('tcp_keepalives_interval', '1', true), set_config('tcp_keepalives_count', '2', true),
	set_config('lock_timeout', '1000', true), set_config('synchronous_commit', 'on', true)`

// lock begins a transaction that has the pool's row.
func (s *Store) lock(ctx context.Context, conn *pgxpool.Conn, pool string) (w row, err error) {
	var batch pgx.Batch
	batch.Queue(begin)
	batch.Queue(limits)
	batch.Queue("INSERT INTO llmgov_pools VALUES ($1, '', clock_timestamp()) ON CONFLICT DO NOTHING", pool)
	batch.Queue("SELECT account FROM llmgov_pools WHERE pool = $1 FOR UPDATE", pool)
	batch.Queue("SELECT " + s.clock + ", " + s.incarnation)
	results := conn.SendBatch(ctx, &batch)
	defer func() { err = errors.Join(err, results.Close()) }()
	for range 3 {
		if _, err := results.Exec(); err != nil {
			return row{}, err
		}
	}
	if err := results.QueryRow().Scan(&w.account); err != nil {
		return row{}, err
	}
	err = results.QueryRow().Scan(&w.now, &w.incarnation)
	return w, err
}

// write ends the transaction.
func write(ctx context.Context, conn *pgxpool.Conn, pool string, account []byte) (err error) {
	var batch pgx.Batch
	batch.Queue("UPDATE llmgov_pools SET account = $2, changed = clock_timestamp() WHERE pool = $1", pool, account)
	batch.Queue("COMMIT")
	results := conn.SendBatch(ctx, &batch)
	defer func() { err = errors.Join(err, results.Close()) }()
	done, err := results.Exec()
	if err != nil {
		return err
	}
	if done.RowsAffected() != 1 {
		return errors.New("the pool's row is gone")
	}
	_, err = results.Exec()
	return err
}

// Look implements runner.Store.
func (s *Store) Look(ctx context.Context, pool string) (federation.View, error) {
	var w row
	err := use(ctx, s.db, func(conn *pgxpool.Conn) error {
		return conn.QueryRow(ctx, "SELECT account, "+s.clock+" FROM llmgov_pools WHERE pool = $1", pool).Scan(&w.account, &w.now)
	})
	if errors.Is(err, pgx.ErrNoRows) || missing(err) {
		return federation.View{}, nil
	}
	if err != nil {
		return federation.View{}, fmt.Errorf("postgres: %w", err)
	}
	a, err := w.read(s.rules)
	if err != nil {
		return federation.View{}, fmt.Errorf("postgres: %w", unusable(err, poolsTable, "pool", pool))
	}
	return a.View(w.now), nil
}
