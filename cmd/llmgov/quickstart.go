package main

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/llmgov/llmgov/governor/terms"
	"github.com/llmgov/llmgov/internal/lab/mock"
	"github.com/llmgov/llmgov/tenants"
	"github.com/llmgov/llmgov/tenants/keyfile"
)

// quickstart is the setup of serve without a config file: one pool, three
// tenants with fresh keys, and the upstream that the environment names, else a
// simulated one in this process.
type quickstart struct {
	keys     map[string]string
	upstream tenants.Upstream
	model    string
	server   *http.Server // the simulated upstream; nil with a real one
}

// demoTenants are in the order of their weights.
var demoTenants = []tenants.Tenant{
	{Name: "free", Tier: "free", Weight: 1, Limits: terms.Limits{RPM: 60, Concurrency: 4}, MaxWait: 2 * time.Second, MaxOutputTokens: 1024},
	{Name: "pro", Tier: "pro", Weight: 2, Limits: terms.Limits{RPM: 600}, MaxWait: 5 * time.Second},
	{Name: "enterprise", Tier: "enterprise", Weight: 4, MaxWait: 10 * time.Second},
}

const demoTPM = 600_000

func newQuickstart(vars []string) (*quickstart, error) {
	q := &quickstart{keys: map[string]string{}, model: "gpt-4o-mini"}
	for _, t := range demoTenants {
		q.keys[t.Name] = keyfile.NewKey(t.Name)
	}
	base := lookup(vars, "OPENAI_BASE_URL")
	key := lookup(vars, "OPENAI_API_KEY")
	if base != "" || key != "" {
		if base == "" {
			base = "https://api.openai.com/v1"
		}
		q.upstream = tenants.Upstream{Name: "openai", BaseURL: base, APIKey: key, Kind: "openai"}
		return q, nil
	}
	return q, q.simulate()
}

// simulate starts the model server in this process, behind a real socket, so
// that newcomers try the same path as in production.
func (q *quickstart) simulate() error {
	model, err := mock.New(mock.Config{FirstToken: 150 * time.Millisecond, TokensPerSecond: 60})
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("llmgov: the simulated model server cannot listen: %w", err)
	}
	q.server = &http.Server{Handler: model, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = q.server.Serve(l) }() // ends with close
	q.upstream = tenants.Upstream{Name: "simulated", BaseURL: "http://" + l.Addr().String() + "/v1", Kind: "openai"}
	return nil
}

func (q *quickstart) close() {
	if q.server != nil {
		_ = q.server.Close()
	}
}

// snapshot is the quickstart's policy, with the environment and the flags over
// it.
func (q *quickstart) snapshot(opt tenants.Options) (*tenants.Snapshot, error) {
	cfg, err := tenants.Overlay(tenants.DefaultConfig(), opt)
	if err != nil {
		return nil, err
	}
	pool := tenants.DefaultPool("demo", "*", "gpt-4o", "gpt-4o-mini", "text-embedding-3-small")
	pool.TPM = demoTPM
	cfg.Pools = []tenants.Pool{pool}
	cfg.Upstreams = []tenants.Upstream{q.upstream}
	list := make([]tenants.Tenant, len(demoTenants))
	copy(list, demoTenants)
	for i := range list {
		list[i].Keys = []tenants.Key{{Hash: tenants.HashKey(q.keys[list[i].Name])}}
	}
	return tenants.Build(cfg, list)
}

// welcome lists the tenants with their keys, and a first call to try.
func (q *quickstart) welcome(data, admin string) string {
	var b strings.Builder
	where := "a simulated model server in this process"
	if q.server == nil {
		where = q.upstream.BaseURL
	}
	fmt.Fprintf(&b, "\nQuickstart: pool \"demo\", %d tokens a minute, in front of %s.\n", demoTPM, where)
	if here := configHere(""); here != "" {
		fmt.Fprintf(&b, "The %s here is not used. To use it: llmgov serve -c %s\n", here, here)
	}
	fmt.Fprintf(&b, "Three tenants share it by weight:\n\n")
	for _, t := range demoTenants {
		fmt.Fprintf(&b, "  %-11s weight %v   %s\n", t.Name, t.Weight, q.keys[t.Name])
	}
	fmt.Fprintf(&b, "\nTry it:\n\n")
	curl := func(flags, path, body string) {
		fmt.Fprintf(&b, "  curl -s%s %s/v1/%s -H \"Authorization: Bearer %s\" -H \"Content-Type: application/json\" \\\n    -d '%s'\n\n", flags, data, path, q.keys["pro"], body)
	}
	chat := `{"model":"` + q.model + `","messages":[{"role":"user","content":"Say hello"}]`
	curl("", "chat/completions", chat+`}`)
	curl("N", "chat/completions", chat+`,"stream":true}`)
	curl("", "embeddings", `{"model":"text-embedding-3-small","input":"hello"}`)
	fmt.Fprintf(&b, "Watch: %s/console/\n", admin)
	fmt.Fprintf(&b, "Look: %s/metrics, %s/api/v1/snapshot, %s/api/v1/leases. Stop with Ctrl-C.\n", admin, admin, admin)
	return b.String()
}

// lookup finds a variable in a list like os.Environ().
func lookup(vars []string, name string) string {
	for _, v := range vars {
		if k, value, ok := strings.Cut(v, "="); ok && k == name {
			return value
		}
	}
	return ""
}
