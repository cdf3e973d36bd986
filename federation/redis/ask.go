package redis

import (
	"context"
	"net/url"
	"strings"

	"github.com/llmgov/llmgov/federation/parts"
)

// Ask tells owners of the same calls, in one step and one round trip. After an error it is not known
// whether it was booked; the next one says all that it said. If an account cannot be read, Share finds out which, and answers the others.
func (s *Store) Ask(ctx context.Context, q *parts.Ask) (parts.Answer, error) {
	keys := make([]any, len(q.Beats))
	args := newList()
	for i, b := range q.Beats {
		keys[i] = partsKey(b.Owner)
		args.beat(b)
	}
	for _, c := range q.Calls {
		args.ints(int64(len(c)))
		for _, t := range c {
			args.ints(int64(t.Beat), int64(t.Claim), min(max(t.Amount, 0), parts.MaxAmount), one(t.Rest))
		}
	}
	answer, err := s.ask.runOver(ctx, s.askClient, keys, []any{args.packed()})
	var got parts.Answer
	if err == nil {
		got, err = readAnswer(answer, q)
	}
	switch {
	case err == nil:
		return got, nil
	case isForeign(err) || unusable(err):
		replies, found := s.Share(ctx, q.Beats)
		if found != nil {
			return parts.Answer{Replies: replies}, found
		}
	}
	return parts.Answer{}, explain(err, keys...)
}

// readAnswer reads the answer to an Ask.
func readAnswer(answer any, q *parts.Ask) (parts.Answer, error) {
	list, _ := answer.([]any)
	r := reader{left: list}
	out := parts.Answer{Replies: make([]parts.Reply, len(q.Beats)), Verdicts: make([]parts.Verdict, len(q.Calls))}
	if len(list) == 0 { // it came late, or twice
		return out, nil
	}
	for i, b := range q.Beats {
		out.Replies[i] = r.reply(len(b.Claims))
	}
	for i := range out.Verdicts {
		out.Verdicts[i] = r.verdict(len(q.Calls[i]))
	}
	if r.err != nil {
		return parts.Answer{}, r.err
	}
	return out, nil
}

// verdict is that of a call of so many takes.
func (r *reader) verdict(takes int) (v parts.Verdict) {
	v.In = r.int() == 1
	if !v.In {
		v.Lacks, v.Wait = int(r.int()), r.int()
		return v
	}
	v.Given = make([]int64, takes)
	for i := range v.Given {
		v.Given[i] = r.int()
	}
	return v
}

// partsKey is an owner's. What is in braces decides on the node of a cluster: it is what owners
// of the same calls have in common.
func partsKey(owner string) string {
	root := parts.Root(owner)
	return "llmgov:parts:{" + url.QueryEscape(root) + "}" + url.QueryEscape(strings.TrimPrefix(owner, root))
}
