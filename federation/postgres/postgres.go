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

// Store is a runner.Store, and keeps parts of owners' limits as well.
type Store struct {
	*server
	db     *pgxpool.Pool
	askDB  *pgxpool.Pool // for calls that ask
	rules  federation.Rules
	pools  *logs[*poolAccount]
	owners *logs[*ownerAccount]
	fleet  fleet
	heard  atomic.Int64 // the server's clock, as it was last heard of by owners
	sweeps atomic.Int64 // when to look for owners that are forgotten next, by that clock
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
	s := &Store{server: &server{clock: serverClock, incarnation: serverIncarnation, limits: limits}, rules: r}
	if err := s.begin(); err != nil {
		return nil, err
	}
	cfg.MaxConns = connections
	cfg.ConnConfig.ConnectTimeout = connectTimeout
	// No ping before a beat, which would be a round trip more: a beat that fails is followed by another soon.
	cfg.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false }
	// No prepared statements: poolers that hand connections on would lose them.
	cfg.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
	s.db, err = pgxpool.NewWithConfig(context.Background(), cfg)
	if err != nil {
		return nil, fmt.Errorf("postgres: %w", err)
	}
	asks := cfg.Copy()
	asks.MaxConns = askConnections
	asks.ShouldPing = nil // as usual, because a call that fails is refused
	s.askDB, err = pgxpool.NewWithConfig(context.Background(), asks)
	if err != nil {
		s.db.Close()
		return nil, fmt.Errorf("postgres: %w", err)
	}
	return s, nil
}

// begin begins with no logs.
func (s *Store) begin() (err error) {
	s.pools, err = newLogs(s.server, poolsTable, &poolAccount{Account: federation.NewAccount(s.rules, 0, federation.Options{})}, s.decodePool)
	if err != nil {
		return err
	}
	s.owners, err = newLogs(s.server, partsTable, &ownerAccount{}, decodeOwner)
	return err
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

// unusable says how to get rid of an account that cannot be read.
func unusable(err error, t *table, row string) error {
	return fmt.Errorf("%w; if no gateway of another release uses it, delete it (DELETE FROM %s WHERE %s = '%s'); then nothing is granted until it is known again what was used",
		err, t.name, t.key, strings.ReplaceAll(row, "'", "''"))
}

// begin begins a transaction, whatever the database has for default. Its statements see what others wrote that they waited for.
const begin = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"

// limits bound how long a transaction may stand in the way of others, and see to it that
// what is committed is on the disk. A transaction is not idle while the rest of a batch is on its way, so the server
// also has to ask whether the other side is still there.
const limits = `SELECT set_config('idle_in_transaction_session_timeout', '1500', true),
	set_config('tcp_keepalives_idle', '1', true), set_config('tcp_keepalives_interval', '1', true), set_config('tcp_keepalives_count', '2', true),
	set_config('lock_timeout', '1000', true), set_config('synchronous_commit', 'on', true)`
