package postgres

import (
	"cmp"
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/llmgov/llmgov/federation/parts"
)

// Declare is Account.Declare of a pool. An InUseError says why not.
func (s *Store) Declare(ctx context.Context, pool string) error {
	err := poolsTable.with(ctx, s.db, func(conn *pgxpool.Conn) error {
		row, err := s.lock(ctx, conn, pool)
		if err != nil {
			return err
		}
		k, err := s.readPool(&row)
		if err != nil {
			return unusable(err, poolsTable, pool)
		}
		a := k.account
		if no := a.Declare(row.now, row.incarnation); no != nil {
			no.Pool = pool
			return no
		}
		account, err := a.Encode()
		if err != nil {
			return err
		}
		s.pools.put(pool, plainRow[*poolAccount]())
		return write(ctx, conn, pool, account, nil)
	})
	if err != nil {
		return fmt.Errorf("postgres: %w", err)
	}
	return nil
}

// DeclareOwner is Account.Declare of an owner's limits (package parts).
func (s *Store) DeclareOwner(ctx context.Context, owner string) (declared bool, err error) {
	err = partsTable.with(ctx, s.db, func(conn *pgxpool.Conn) error {
		incarnation, err := s.askIncarnation(ctx, conn)
		if err != nil {
			return err
		}
		bad, err := s.transact(ctx, conn, []string{owner}, true, func(now int64, accounts map[string]*parts.Account) {
			if a := accounts[owner]; a != nil {
				declared = a.Declare(now, incarnation)
			}
		})
		return cmp.Or(err, bad[owner])
	})
	if err != nil {
		return false, fmt.Errorf("postgres: %w", err)
	}
	return declared, nil
}
