package postgres

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/llmgov/llmgov/federation"
	"github.com/llmgov/llmgov/federation/parts"
)

// ownerAccount is the account of an owner, and its answer to the last beat of a log.
type ownerAccount struct {
	parts.Account
	reply parts.Reply
}

// unread is the first byte of the account at the beginning of a log. No account begins with it, nor does a log of another format (up to 8 they
// begin with 0xff), so a gateway that knows no such logs leaves the row alone, and has an error: it would take the account at the beginning
// for all that was used.
const unread = 0x80 + federation.Format

func (a *ownerAccount) encode() ([]byte, error) {
	text, err := a.Encode()
	return append([]byte{unread}, text...), err
}

// decodeOwner reads an account, or the beginning of a log. An owner that is new has neither.
func decodeOwner(begin []byte) (*ownerAccount, error) {
	if len(begin) == 0 {
		return &ownerAccount{}, nil
	}
	if begin[0] == unread {
		begin = begin[1:]
	}
	a, err := parts.Decode(begin)
	if err != nil {
		return nil, err
	}
	return &ownerAccount{Account: *a}, nil
}

func (a *ownerAccount) take(e *entry) error {
	var b parts.Beat
	if err := decodeBeat(e.beat, &b); err != nil {
		return err
	}
	a.On(e.incarnation)
	a.reply = a.Beat(e.now, &b)
	return nil
}

func (a *ownerAccount) at() int64 { return a.Now }

// Share tells beats of several owners in one transaction, and returns their answers in the same
// order. After an error it is not known whether they were booked; the next ones say all that
// they said. An error of accounts that cannot be read is Failures.
func (s *Store) Share(ctx context.Context, beats []*parts.Beat) ([]parts.Reply, error) {
	replies, failed := make([]parts.Reply, len(beats)), parts.Failures{}
	rest := make([]int, len(beats)) // indices of beats that are not told yet
	for i := range beats {
		rest[i] = i
	}
	for len(rest) > 0 {
		r := &round{beats: beats, replies: replies, failed: failed}
		r.left, rest = firsts(beats, rest)
		if err := s.share(ctx, r); err != nil {
			return nil, fmt.Errorf("postgres: %w", err)
		}
	}
	if len(failed) > 0 {
		return replies, failed
	}
	return replies, nil
}

// firsts parts beats, which are given by their indices, into the first of each owner and the others.
func firsts(beats []*parts.Beat, list []int) (first, rest []int) {
	seen := make(map[string]bool, len(list))
	for _, i := range list {
		owner := beats[i].Owner
		if seen[owner] {
			rest = append(rest, i)
			continue
		}
		seen[owner] = true
		first = append(first, i)
	}
	return first, rest
}

// round are beats, one of each owner, and where their answers go.
type round struct {
	beats   []*parts.Beat
	replies []parts.Reply
	failed  parts.Failures
	left    []int // indices of beats that are not told yet
	// deserted are owners whose last gateway leaves.
	deserted []string
}

// fail notes which beats cannot be told, by their owners.
func (r *round) fail(bad map[string]error) {
	r.left = slices.DeleteFunc(r.left, func(i int) bool {
		err := bad[r.beats[i].Owner]
		if err != nil {
			r.failed[i] = fmt.Errorf("postgres: %w", err)
		}
		return err != nil
	})
}

// owners are the owners of the beats that are left, in the order in which they are locked.
func (r *round) owners() []string {
	told := make([]*parts.Beat, len(r.left))
	for n, i := range r.left {
		told[n] = r.beats[i]
	}
	return owners(told)
}

// share tells the beats of a round.
func (s *Store) share(ctx context.Context, r *round) error {
	return partsTable.with(ctx, s.db, func(conn *pgxpool.Conn) error {
		if err := s.appendParts(ctx, conn, r); err != nil {
			return err
		}
		if len(r.deserted) > 0 {
			slices.Sort(r.deserted)
			_, _ = s.transact(ctx, conn, r.deserted, true, noStep) // the beats are booked in any case
		}
		if len(r.left) == 0 {
			return nil
		}
		bad, err := s.transact(ctx, conn, r.owners(), false, func(now int64, accounts map[string]*parts.Account) {
			for _, i := range r.left {
				if b := r.beats[i]; accounts[b.Owner] != nil {
					r.replies[i] = accounts[b.Owner].Beat(now, b)
				}
			}
		})
		r.fail(bad)
		return err
	})
}

// appendParts appends beats to the logs of their owners, so far as these have logs. Where all gateways know logs it makes one of an account as soon
// as it has read that, in one round trip more: to lock it over two would be too slow for a store that is far.
func (s *Store) appendParts(ctx context.Context, conn *pgxpool.Conn, r *round) error {
	now := time.Now()
	if s.fleet.isMixed(now) {
		return nil
	}
	alike := s.fleet.isAlike(now)
	accounts, err := s.appendRound(ctx, conn, r, alike)
	if err != nil || !alike || len(accounts) == 0 {
		return err
	}
	bad := map[string]error{}
	for _, x := range accounts {
		k, err := s.owners.read(x.Account)
		if err != nil {
			bad[x.Owner] = unusable(err, partsTable, x.Owner)
			continue
		}
		k.unlogged = true
		s.owners.put(x.Owner, k)
	}
	r.fail(bad)
	_, err = s.appendRound(ctx, conn, r, alike)
	return err
}

// ownerRow is an owner's row that is no log.
type ownerRow struct {
	Owner   string
	Account []byte
}

// appendRound appends beats to the logs of their owners, and returns the rows of those who have none.
func (s *Store) appendRound(ctx context.Context, conn *pgxpool.Conn, r *round, create bool) (accounts []ownerRow, err error) {
	letters := make([]letter, len(r.left))
	for n, i := range r.left {
		b := r.beats[i]
		lasts, ends := b.Kept()
		letters[n] = letter{row: b.Owner, beat: b, lasts: lasts, ends: ends}
	}
	done, err := s.owners.append(ctx, conn, letters, create, func(batch *pgx.Batch) {
		batch.Queue("SELECT owner, account FROM llmgov_parts WHERE owner = ANY($1::text[]) AND NOT "+isLog("$2"), r.owners(), mark).Query(func(rows pgx.Rows) (err error) {
			accounts, err = pgx.CollectRows(rows, pgx.RowToStructByPos[ownerRow])
			return err
		})
		s.sweep(batch)
	})
	if err != nil {
		return nil, err
	}
	var left []int
	for _, i := range r.left {
		k := done[r.beats[i].Owner]
		if k == nil {
			left = append(left, i)
			continue
		}
		if b := r.beats[i]; b.Left && k.account.Last(b.Instance) {
			r.deserted = append(r.deserted, b.Owner)
		}
		r.replies[i] = k.account.reply
		s.heard.Store(k.account.Now)
		s.owners.put(r.beats[i].Owner, k)
	}
	r.left = left
	return accounts, nil
}

// Ask tells owners that hold for the same calls, in one transaction. If an account cannot be read, Share answers the others.
func (s *Store) Ask(ctx context.Context, q *parts.Ask) (answer parts.Answer, err error) {
	var bad map[string]error
	err = partsTable.with(ctx, s.askDB, func(conn *pgxpool.Conn) (err error) {
		bad, err = s.transact(ctx, conn, owners(q.Beats), false, func(now int64, accounts map[string]*parts.Account) {
			list := make([]*parts.Account, len(q.Beats))
			for i, b := range q.Beats {
				if list[i] = accounts[b.Owner]; list[i] == nil {
					return
				}
			}
			answer = q.Tell(now, list)
		})
		return err
	})
	switch {
	case err != nil:
		return parts.Answer{}, fmt.Errorf("postgres: %w", err)
	case len(bad) > 0:
		answer.Replies, err = s.Share(ctx, q.Beats)
	}
	return answer, err
}

// owners are those of beats, once each, in the order in which they are locked.
func owners(beats []*parts.Beat) []string {
	var names []string
	for _, b := range beats {
		names = append(names, b.Owner)
	}
	slices.Sort(names)
	return slices.Compact(names)
}
