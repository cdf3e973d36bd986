package redis

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/llmgov/llmgov/federation"
)

// Store is a runner.Store, and keeps parts of owners' limits as well.
type Store struct {
	client, askClient      redis.UniversalClient // one for calls that ask
	rules                  string
	beat, look, parts, ask script

	declare, declareParts script
	warn                  func(string)
	warned                atomic.Bool
}

// Open returns a store at a URL, such as redis://user:password@host:6379. It does not connect: a
// server that cannot be reached is an error of each Beat. warn is told once of settings of the
// server that will do harm.
func Open(url string, r federation.Rules, warn func(string)) (*Store, error) {
	a, err := parse(url)
	if err != nil {
		return nil, fmt.Errorf("redis: %w", err)
	}
	return a.open(r, warn), nil
}

func (a *address) open(r federation.Rules, warn func(string)) *Store {
	s := &Store{client: a.client(connections), askClient: a.client(askConnections), rules: rulesText(r), warn: warn}
	s.use(luaServer, luaClock)
	return s
}

// Check says what is wrong with a URL for Open.
func Check(url string) error {
	if _, err := parse(url); err != nil {
		return fmt.Errorf("redis: %w", err)
	}
	return nil
}

// Server is the first server that a URL names, as host:port; empty if it names none.
func Server(url string) string {
	a, err := parse(url)
	if err != nil || len(a.hosts) == 0 {
		return ""
	}
	return a.hosts[0]
}

// use sets what the scripts ask the server and its clock by.
func (s *Store) use(server, clock string) {
	s.beat, s.look = newScript(server, luaBeat), newScript(server, luaLook)
	s.parts, s.ask = assemble(server, clock, luaParts, luaRestoreParts, luaShareParts), assemble(server, clock, luaParts, luaRestoreParts, luaAskParts)
	s.declare, s.declareParts = newScript(server, luaDeclare), assemble(server, clock, luaParts, luaDeclareParts)
}

// Close ends all connections. Nothing may be under way.
func (s *Store) Close() {
	_ = s.askClient.Close()
	_ = s.client.Close()
}

// key is an account's. What is in braces decides on the node of a cluster: all accounts of a pool are on one, and are lost together.
func key(account string) string {
	pool, axes, _ := strings.Cut(account, ", ")
	return "llmgov:{" + url.QueryEscape(pool) + "}" + url.QueryEscape(axes)
}

// Beat implements runner.Store.
func (s *Store) Beat(ctx context.Context, pool string, b *federation.Beat) (federation.Reply, error) {
	text, err := beatText(b)
	if err != nil {
		return federation.Reply{}, fmt.Errorf("redis: a beat cannot be written down: %w", err)
	}
	var digest []byte
	if b.Copy != nil {
		digest = b.Copy.Digest
	}
	answer, err := s.beat.run(ctx, s.client, key(pool), s.rules, text, digest)
	if err != nil {
		return federation.Reply{}, explain(err, key(pool))
	}
	reply, err := readReply(answer, b)
	if err != nil {
		return federation.Reply{}, explain(err, key(pool))
	}
	return reply, nil
}

// luaFirst keeps until when somebody is the first, who alone knows that and may move it.
const luaFirst = `
local told = redis.call('GET', KEYS[1])
if told and told ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
return 1`

// First implements store.Herald.
func (s *Store) First(ctx context.Context, what string, mine, until time.Time) (bool, error) {
	at := "llmgov:told:" + url.QueryEscape(what)
	answer, err := assemble(luaFirst).run(ctx, s.client, at, mine.UnixMicro(), until.UnixMicro(), max(time.Second, time.Until(until)).Milliseconds())
	if err != nil {
		return false, explain(err, at)
	}
	return answer == int64(1), nil
}

// Look implements runner.Store.
func (s *Store) Look(ctx context.Context, pool string) (federation.View, error) {
	answer, err := s.look.run(ctx, s.client, key(pool), s.rules)
	if errors.Is(err, redis.Nil) {
		return federation.View{}, nil
	}
	if err != nil {
		return federation.View{}, explain(err, key(pool))
	}
	v, policy, err := readView(answer)
	if err != nil {
		return federation.View{}, explain(err, key(pool))
	}
	if policy != "noeviction" && s.warned.CompareAndSwap(false, true) {
		s.warn("the server's maxmemory-policy is " + policy + ": when its memory is full it forgets pools, of which nothing is granted " +
			"then until it is known again what was used; set noeviction")
	}
	return v, nil
}

// Declare is Account.Declare of a pool. An InUseError says why not.
func (s *Store) Declare(ctx context.Context, pool string) error {
	answer, err := s.declare.run(ctx, s.client, key(pool), s.rules)
	if err != nil {
		return explain(err, key(pool))
	}
	list, _ := answer.([]any)
	if len(list) == 0 {
		return nil
	}
	r := reader{left: list}
	no := &federation.InUseError{Pool: pool, Node: r.text(), Ago: time.Duration(r.int()) * time.Millisecond, Wait: time.Duration(r.int()) * time.Millisecond}
	if r.err != nil {
		return fmt.Errorf("redis: %w", r.err)
	}
	return no
}

// rights are what a user of Redis needs on llmgov's keys.
const rights = "+evalsha +eval +time +info +hmget +hset +hdel +hscan +del +exists +pexpire +get +set"

// explain says of an error what is to be done, if that is known. keys are those that the script was
// called with.
func explain(err error, keys ...any) error {
	if isForeign(err) {
		return fmt.Errorf("redis: %w (%s); %s", federation.ErrEncoding, strings.TrimPrefix(err.Error(), foreign), remedy(keys))
	}
	if redis.HasErrorPrefix(err, "NOPERM") || strings.Contains(err.Error(), "can't run this command") {
		return fmt.Errorf("redis: %w (the user needs ~llmgov:* %s)", err, rights)
	}
	if unusable(err) {
		return fmt.Errorf("redis: %w (%w); %s", federation.ErrDamaged, err, remedy(keys))
	}
	return fmt.Errorf("redis: %w", err)
}

// foreign begins a script's error about an account that another release wrote.
const foreign = "FOREIGN "

func isForeign(err error) bool { return strings.HasPrefix(err.Error(), foreign) }

// unusable reports whether a script failed over what it found, and not over what the server did. A
// script that fails has written nothing.
func unusable(err error) bool {
	if redis.HasErrorPrefix(err, "WRONGTYPE") || errors.Is(err, errAnswer) {
		return true
	}
	return strings.HasPrefix(err.Error(), "ERR ") && strings.Contains(err.Error(), "user_script") // HasErrorPrefix skips ERR
}

// remedy is how to get rid of an account.
func remedy(keys []any) string {
	var names []string
	for _, k := range keys {
		names = append(names, fmt.Sprintf("DEL '%s'", k))
	}
	text := "if no gateway of another release uses it, delete it"
	if len(names) > 1 {
		text = "it is one of several: find the one that cannot be read, and delete it"
	}
	return text + " (" + strings.Join(names, ", ") + "); then nothing is granted until it is known again what was used"
}
