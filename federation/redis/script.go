package redis

import (
	"context"
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

var (
	//go:embed lua/server.lua
	luaServer string
	//go:embed lua/book.lua
	luaBook string
	//go:embed lua/state.lua
	luaState string
	//go:embed lua/survey.lua
	luaSurvey string
	//go:embed lua/safety.lua
	luaSafety string
	//go:embed lua/water.lua
	luaWater string
	//go:embed lua/share.lua
	luaShare string
	//go:embed lua/restore.lua
	luaRestore string
	//go:embed lua/account.lua
	luaAccount string
	//go:embed lua/beat.lua
	luaBeat string
	//go:embed lua/look.lua
	luaLook string
	//go:embed lua/declare.lua
	luaDeclare string
	//go:embed lua/clock.lua
	luaClock string
	//go:embed lua/parts.lua
	luaParts string
	//go:embed lua/restore_parts.lua
	luaRestoreParts string
	//go:embed lua/share_parts.lua
	luaShareParts string
	//go:embed lua/ask_parts.lua
	luaAskParts string
	//go:embed lua/declare_parts.lua
	luaDeclareParts string
)

// script is what a server runs, and the name that it has there.
type script struct{ text, sha string }

// newScript puts a script together, of which server says what the server is.
func newScript(server, main string) script {
	return assemble(server, luaBook, luaState, luaSurvey, luaSafety, luaWater, luaShare, luaRestore, luaAccount, main)
}

func assemble(pieces ...string) script {
	text := strings.Join(pieces, "\n")
	sum := sha1.Sum([]byte(text))
	return script{text, hex.EncodeToString(sum[:])}
}

// once is a command that is not sent again, whatever becomes of it. Without it the client of
// a cluster does.
type once struct{ *redis.Cmd }

func (once) NoRetry() bool { return true }

// run runs a script on a key.
func (s script) run(ctx context.Context, c redis.UniversalClient, key string, args ...any) (any, error) {
	return s.runOver(ctx, c, []any{key}, args)
}

// runOver runs a script on keys, of one slot of a cluster. Where the server does not have it, nothing
// was run, and it is sent whole.
func (s script) runOver(ctx context.Context, c redis.UniversalClient, keys, args []any) (any, error) {
	send := func(name, payload string) (any, error) {
		cmd := redis.NewCmd(ctx, slices.Concat([]any{name, payload, len(keys)}, keys, args)...)
		cmd.SetFirstKeyPos(3)
		_ = c.Process(ctx, once{cmd})
		return cmd.Result()
	}
	reply, err := send("evalsha", s.sha)
	if redis.HasErrorPrefix(err, "NOSCRIPT") {
		return send("eval", s.text)
	}
	return reply, err
}
