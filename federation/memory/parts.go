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
		a := s.owners[b.Owner]
		if a == nil {
			a = &owned{}
			s.owners[b.Owner] = a
		}
		replies[i] = a.Beat(now, b)
		a.until = a.Now + a.Forget()
	}
	return replies, nil
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
