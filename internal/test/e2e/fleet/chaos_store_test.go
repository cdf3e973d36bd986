package fleet

import (
	"context"
	"errors"
	neturl "net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/llmgov/llmgov/internal/test/testkit/pgtest"
	"github.com/llmgov/llmgov/internal/test/testkit/redistest"
)

// redisDisaster is Redis with a replica. A restart loses all.
type redisDisaster struct {
	*redistest.Server
	t       *testing.T
	replica *redistest.Server
}

func newRedisDisaster(t *testing.T) *redisDisaster {
	primary := redistest.New(t)
	replica := redistest.New(t, "--replicaof", "127.0.0.1", strconv.Itoa(primary.Port()))
	return &redisDisaster{primary, t, replica}
}

func (r *redisDisaster) At(addr string) string { return "redis://" + addr }

func (r *redisDisaster) Remembers() bool { return false }

func (r *redisDisaster) Flush() { r.Do("FLUSHALL") }

// Failover loses the primary, and waits until a Sentinel names another. It has watched only
// since then: before, it would have made one of each restart.
func (r *redisDisaster) Failover() string {
	sentinel := redistest.NewSentinel(r.t, "llmgov", r.Server)
	redistest.Eventually(r.t, "a replica", func() bool {
		return strings.Contains(sentinel.Do("SENTINEL", "replicas", "llmgov"), strconv.Itoa(r.replica.Port()))
	})
	lost := strconv.Itoa(r.Port())
	r.Server.Stop()
	redistest.Eventually(r.t, "another primary", func() bool {
		now := sentinel.Do("SENTINEL", "get-master-addr-by-name", "llmgov")
		return now != "" && !strings.Contains(now, lost)
	})
	r.Server = r.replica
	return r.Addr()
}

// pgDisaster is PostgreSQL. A restart loses nothing.
type pgDisaster struct {
	*pgtest.Server
	t *testing.T
}

func (p *pgDisaster) Remembers() bool { return true }

func (p *pgDisaster) Addr() string {
	u, _ := neturl.Parse(p.Server.URL())
	return u.Host
}

func (p *pgDisaster) At(addr string) string {
	u, _ := neturl.Parse(p.Server.URL())
	u.Host = addr
	return u.String()
}

func (p *pgDisaster) Flush() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, p.Server.URL())
	if err != nil {
		p.t.Error(err)
		return
	}
	defer conn.Close(ctx)
	for _, table := range []string{"llmgov_pools", "llmgov_parts"} { // of which the second comes with the first limits of its kind
		_, err := conn.Exec(ctx, "DELETE FROM "+table)
		missing := &pgconn.PgError{}
		if errors.As(err, &missing) && missing.Code == "42P01" {
			continue
		}
		if err != nil {
			p.t.Error(err)
		}
	}
}
