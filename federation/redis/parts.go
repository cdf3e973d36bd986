package redis

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/llmgov/llmgov/federation/parts"
)

// Share tells beats of several owners, in one round trip, and returns their answers in the same
// order. After an error it is not known which of them were booked; the next ones say all that
// they said.
func (s *Store) Share(ctx context.Context, beats []*parts.Beat) ([]parts.Reply, error) {
	calls := make([]call, len(beats))
	for i, b := range beats {
		calls[i] = call{partsKey(b.Owner), partsArgs(b)}
	}
	answers, err := s.parts.runAll(ctx, s.client, calls)
	if err != nil {
		return nil, err
	}
	replies := make([]parts.Reply, len(beats))
	for i, a := range answers {
		replies[i], err = readParts(a, len(beats[i].Claims))
		if err != nil {
			return nil, fmt.Errorf("redis: %w", err)
		}
	}
	return replies, nil
}

// partsArgs is a beat as the script reads it.
func partsArgs(b *parts.Beat) []any {
	args := append(make([]any, 0, 8+20*len(b.Claims)), b.Instance, b.Seq, b.Left, b.Timed, len(b.Claims), b.Epoch, b.Known, b.Heard)
	for _, c := range b.Claims {
		c = c.Within()
		args = append(args, c.Name, string(c.Kind), c.Limit, c.Ends, c.Used, c.Held, c.Part, c.Want, c.Need, c.Spare, c.Weight, c.Calm, c.CalmUse, c.Tail, c.Sum, c.Gone, c.Most, c.Peers, c.Had, c.Note)
	}
	return args
}

// readParts reads the answer to a beat of so many claims.
func readParts(answer any, claims int) (parts.Reply, error) {
	list, _ := answer.([]any)
	r := reader{left: list}
	reply := r.reply(claims)
	return reply, r.err
}

func (r *reader) reply(claims int) parts.Reply {
	reply := parts.Reply{Seq: r.int()}
	if reply.Seq == 0 {
		return reply
	}
	reply.Epoch = r.int()
	reply.Learning = r.int() == 1
	reply.Now = r.int()
	reply.Parts = make([]parts.Part, claims)
	for i := range reply.Parts {
		p := parts.Part{Part: r.int(), Others: r.int(), Held: r.int(), Sum: r.int(), Gone: r.int(), Most: r.int(), Peers: r.int()}
		for range r.int() {
			p.Notes = append(p.Notes, parts.Note{Age: r.int(), Text: r.text()})
		}
		reply.Parts[i] = p
	}
	return reply
}

// call is one run of a script.
type call struct {
	key  string
	args []any
}

// runAll runs a script on many keys in one round trip. Those that are told that the server does
// not have it are sent whole. The first error is that of all.
func (s script) runAll(ctx context.Context, c redis.UniversalClient, calls []call) ([]any, error) {
	cmds, _ := pipeline(ctx, c, "evalsha", s.sha, calls)
	answers := make([]any, len(calls))
	var again []call
	var at []int
	for i, cmd := range cmds {
		var err error
		answers[i], err = cmd.Result()
		if redis.HasErrorPrefix(err, "NOSCRIPT") {
			again = append(again, calls[i])
			at = append(at, i)
		} else if err != nil {
			return nil, explain(err, calls[i].key)
		}
	}
	if len(again) == 0 {
		return answers, nil
	}
	cmds, _ = pipeline(ctx, c, "eval", s.text, again)
	for n, cmd := range cmds {
		var err error
		answers[at[n]], err = cmd.Result()
		if err != nil {
			return nil, explain(err, again[n].key)
		}
	}
	return answers, nil
}

// pipeline sends all calls at once.
func pipeline(ctx context.Context, c redis.UniversalClient, name, payload string, calls []call) ([]*redis.Cmd, error) {
	cmds := make([]*redis.Cmd, len(calls))
	p := c.Pipeline()
	for i, x := range calls {
		cmds[i] = redis.NewCmd(ctx, append([]any{name, payload, 1, x.key}, x.args...)...)
		cmds[i].SetFirstKeyPos(3)
		_ = p.Process(ctx, once{cmds[i]})
	}
	_, err := p.Exec(ctx)
	return cmds, err
}
