package redis

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"
)

// luaReplace replaces a text, if it is still the one that the caller knows.
const luaReplace = `
if (redis.call('GET', KEYS[1]) or '') ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2])
return 1`

// documentKey is that of a text, which no account has.
func documentKey(name string) string { return "llmgov:document:" + name }

// Document reads a text that all gateways share; "" is none.
func (s *Store) Document(ctx context.Context, name string) (string, error) {
	text, err := s.client.Get(ctx, documentKey(name)).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return "", explain(err, documentKey(name))
	}
	return text, nil
}

// Replace puts another text in the place of an old one, if that is still there.
func (s *Store) Replace(ctx context.Context, name, old, text string) (done bool, err error) {
	answer, err := assemble(luaReplace).run(ctx, s.client, documentKey(name), old, text)
	if err != nil {
		return false, explain(err, documentKey(name))
	}
	return answer == int64(1), nil
}
