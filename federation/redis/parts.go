package redis

import (
	"context"
	"encoding/binary"

	"github.com/redis/go-redis/v9"

	"github.com/llmgov/llmgov/federation/parts"
)

// Share tells beats of several owners, in one round trip, and returns their answers in the same
// order. After an error it is not known which of them were booked; the next ones say all that
// they said. An error of some of them alone is Failures.
func (s *Store) Share(ctx context.Context, beats []*parts.Beat) ([]parts.Reply, error) {
	calls := make([]call, len(beats))
	for i, b := range beats {
		l := newList()
		l.beat(b)
		calls[i] = call{partsKey(b.Owner), []any{l.packed()}}
	}
	answers, failed := s.parts.runAll(ctx, s.client, calls)
	replies := make([]parts.Reply, len(beats))
	lost := 0
	for i, a := range answers {
		err := failed[i]
		if err == nil {
			replies[i], err = readParts(a, len(beats[i].Claims))
		}
		if err == nil {
			continue
		}
		failed[i] = explain(err, calls[i].key)
		if !unusable(err) && !isForeign(err) {
			lost++
		}
	}
	switch {
	case len(failed) == 0:
		return replies, nil
	case lost == len(beats):
		return nil, failed[0]
	}
	return replies, failed
}

// DeclareOwner is Account.Declare of an owner's limits (package parts).
func (s *Store) DeclareOwner(ctx context.Context, owner string) (bool, error) {
	answer, err := s.declareParts.run(ctx, s.client, partsKey(owner), newList().packed())
	if err != nil {
		return false, explain(err, partsKey(owner))
	}
	return answer == int64(1), nil
}

// list is what a script of limits is told, in msgpack.
type list struct {
	n    int
	text []byte // behind room for its head
}

const (
	listHead = 5
	// usualList has room for a beat of a tenant's five limits.
	usualList = 800
)

func newList() *list { return &list{text: make([]byte, listHead, usualList)} }

// beat adds a beat as the script reads it.
func (l *list) beat(b *parts.Beat) {
	l.string(b.Instance)
	l.ints(b.Seq, one(b.Left), one(b.Timed), int64(len(b.Claims)), b.Epoch, b.Known, b.Heard)
	for _, c := range b.Claims {
		c = c.Within()
		l.string(c.Name)
		l.string(string(c.Kind))
		l.ints(c.Limit, c.Ends, c.Used, c.Held, c.Part, c.Want, c.Need, c.Spare, c.Weight, c.Calm, c.CalmUse, c.Tail, c.Sum, c.Gone, c.Most, c.Peers, c.Had, c.Expect, c.Lasts, c.Lasted)
		l.string(c.Note)
	}
}

// one is 1 if something is so.
func one(is bool) int64 {
	if is {
		return 1
	}
	return 0
}

// ints adds numbers, most of which are small. Scripts know numbers of at most 2⁵³.
func (l *list) ints(numbers ...int64) {
	for _, x := range numbers {
		l.n++
		if 0 <= x && x < 0x80 {
			l.text = append(l.text, byte(x))
			continue
		}
		l.text = binary.BigEndian.AppendUint64(append(l.text, 0xd3), uint64(x))
	}
}

func (l *list) string(s string) {
	l.n++
	l.text = binary.BigEndian.AppendUint32(append(l.text, 0xdb), uint32(len(s)))
	l.text = append(l.text, s...)
}

// packed is the list as a whole. Nothing can be added any more.
func (l *list) packed() []byte {
	l.text[0] = 0xdd
	binary.BigEndian.PutUint32(l.text[1:], uint32(l.n))
	return l.text
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
// not have it are sent whole.
func (s script) runAll(ctx context.Context, c redis.UniversalClient, calls []call) ([]any, parts.Failures) {
	answers, failed := make([]any, len(calls)), parts.Failures{}
	var again []call
	var at []int
	for i, cmd := range pipeline(ctx, c, "evalsha", s.sha, calls) {
		answer, err := cmd.Result()
		switch {
		case redis.HasErrorPrefix(err, "NOSCRIPT"):
			again = append(again, calls[i])
			at = append(at, i)
		case err != nil:
			failed[i] = err
		default:
			answers[i] = answer
		}
	}
	if len(again) == 0 {
		return answers, failed
	}
	for n, cmd := range pipeline(ctx, c, "eval", s.text, again) {
		answer, err := cmd.Result()
		if err != nil {
			failed[at[n]] = err
		}
		answers[at[n]] = answer
	}
	return answers, failed
}

// pipeline sends all calls at once.
func pipeline(ctx context.Context, c redis.UniversalClient, name, payload string, calls []call) []*redis.Cmd {
	cmds := make([]*redis.Cmd, len(calls))
	p := c.Pipeline()
	for i, x := range calls {
		cmds[i] = redis.NewCmd(ctx, append([]any{name, payload, 1, x.key}, x.args...)...)
		cmds[i].SetFirstKeyPos(3)
		_ = p.Process(ctx, once{cmds[i]})
	}
	_, _ = p.Exec(ctx) // each has its error
	return cmds
}
