package tenants_test

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/llmgov/llmgov/tenants"
	"github.com/llmgov/llmgov/tenants/keyfile"
)

const exampleConfig = `
upstreams:
  openai: {base_url: https://api.openai.com/v1, api_key: "${OPENAI_API_KEY}"}
pools:
  gpt: {models: ["gpt-4*"], upstream: openai, tpm: 300_000}
`

const examplePolicy = `
tenants:
  acme: {tpm: 50_000, models: [gpt-4o], keys: ["%s"]}
`

// A policy is loaded from a config file and the tenant files beside it. It knows for each API key which tenant it
// belongs to, and for each tenant which models it may call.
func ExampleLoad() {
	dir, err := os.MkdirTemp("", "llmgov")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)

	key := keyfile.NewKey("acme")
	write(dir, "llmgov.yaml", exampleConfig)
	write(dir, "tenants/acme.yaml", fmt.Sprintf(examplePolicy, tenants.HashKey(key)))

	snapshot, err := tenants.Load(filepath.Join(dir, "llmgov.yaml"), tenants.Options{
		Env: []string{"OPENAI_API_KEY=sk-example"},
	})
	if err != nil {
		panic(err) // lists every problem, with file, line and column
	}

	tenant, _, found := snapshot.Lookup(key)
	if !found {
		panic("no tenant has this key")
	}
	fmt.Println("tenant:", tenant.Name)
	fmt.Println("tokens a minute:", tenant.TPM)
	fmt.Println("may use gpt-4o:", tenant.MayUse("gpt-4o"))
	fmt.Println("may use gpt-4.1:", tenant.MayUse("gpt-4.1"))
	if pool, served := snapshot.PoolOf("gpt-4o"); served {
		fmt.Println("pool of gpt-4o:", pool.Name)
	}
	// Output:
	// tenant: acme
	// tokens a minute: 50000
	// may use gpt-4o: true
	// may use gpt-4.1: false
	// pool of gpt-4o: gpt
}

func write(dir, name, text string) {
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		panic(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		panic(err)
	}
}
