package redis

import (
	"github.com/llmgov/llmgov/federation"
	"github.com/llmgov/llmgov/federation/store"
)

func init() {
	store.Register(store.Driver{
		Name: "redis", Schemes: []string{"redis", "rediss", "redis+sentinel", "rediss+sentinel"}, Check: Check, Server: Server,
		Open: func(address string, r federation.Rules, warn func(string)) (store.Store, error) {
			return Open(address, r, warn)
		},
	})
}
