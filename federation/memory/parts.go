package memory

import (
	"context"
	"maps"

	"github.com/llmgov/llmgov/federation/parts"
)

// owned is an owner's account, and until when it is kept.
type owned struct {
	parts.Account
	until int64
}

// Share tells beats of several owners, and returns their answers in the same order.
func (s *Store) Share(ctx context.Context, beats []*parts.Beat) ([]parts.Reply, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.cfg.Now()
	s.forget(now)
	replies := make([]parts.Reply, len(beats))
	for i, b := range beats {
		a := s.owner(b.Owner)
		replies[i] = a.Beat(now, b)
		a.until = a.Now + a.Forget()
	}
	return replies, nil
}

// Ask tells owners that hold for the same calls, in one step.
func (s *Store) Ask(ctx context.Context, q *parts.Ask) (parts.Answer, error) {
	if err := ctx.Err(); err != nil {
		return parts.Answer{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.cfg.Now()
	s.forget(now)
	list := make([]*owned, len(q.Beats))
	accounts := make([]*parts.Account, len(q.Beats))
	for i, b := range q.Beats {
		list[i] = s.owner(b.Owner)
		accounts[i] = &list[i].Account
	}
	answer := q.Tell(now, accounts)
	for _, a := range list {
		a.until = a.Now + a.Forget()
	}
	return answer, nil
}

func (s *Store) owner(name string) *owned {
	a := s.owners[name]
	if a == nil {
		a = &owned{}
		s.owners[name] = a
	}
	return a
}

// forget drops the accounts of owners that nobody tells of any more, once in a while, and a
// while after nothing counts there: the clock may be put back.
func (s *Store) forget(now int64) {
	if now < s.swept {
		return
	}
	window := parts.Window.Milliseconds()
	s.swept = now + window
	maps.DeleteFunc(s.owners, func(_ string, a *owned) bool { return a.until+window < now })
}
