package main

import (
	"context"
	neturl "net/url"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/llmgov/llmgov/internal/pgtest"
)

// pgDisaster is PostgreSQL. A restart loses nothing.
type pgDisaster struct {
	*pgtest.Server
	t *testing.T
}

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
	if _, err := conn.Exec(ctx, "DELETE FROM llmgov_pools"); err != nil {
		p.t.Error(err)
	}
}
