package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

var documentsTable = &table{name: "llmgov_documents"}

// Document reads a text that all gateways share; "" is none.
func (s *Store) Document(ctx context.Context, name string) (text string, err error) {
	err = documentsTable.with(ctx, s.db, func(conn *pgxpool.Conn) error {
		return conn.QueryRow(ctx, "SELECT text FROM llmgov_documents WHERE name = $1", name).Scan(&text)
	})
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return "", fmt.Errorf("postgres: %w", err)
	}
	return text, nil
}

// Replace puts another text in the place of an old one, if that is still there.
func (s *Store) Replace(ctx context.Context, name, old, text string) (done bool, err error) {
	sql, args := "UPDATE llmgov_documents SET text = $2 WHERE name = $1 AND text = $3", []any{name, text, old}
	if old == "" {
		sql, args = "INSERT INTO llmgov_documents (name, text) VALUES ($1, $2) ON CONFLICT DO NOTHING", args[:2]
	}
	err = documentsTable.with(ctx, s.db, func(conn *pgxpool.Conn) error {
		tag, err := conn.Exec(ctx, sql, args...)
		done = tag.RowsAffected() == 1
		return err
	})
	if err != nil {
		return false, fmt.Errorf("postgres: %w", err)
	}
	return done, nil
}
