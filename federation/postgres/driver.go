package postgres

import (
	"github.com/llmgov/llmgov/federation"
	"github.com/llmgov/llmgov/federation/store"
)

func init() {
	store.Register(store.Driver{
		Name: "postgres", Schemes: []string{"postgres", "postgresql"}, Check: Check, Server: Server,
		Open: func(address string, r federation.Rules, _ func(string)) (store.Store, error) { return Open(address, r) },
	})
}
