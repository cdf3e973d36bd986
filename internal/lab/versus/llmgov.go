package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/llmgov/llmgov/tenants"
)

// alone is llmgov as a single gateway.
var alone = contestant{
	name:    "llmgov",
	setting: "`store: memory`, tenants with `max_wait: 5s`, every call logged",
	open:    openLlmgov,
	charged: chargedByLlmgov,
	spent:   spentByLlmgov,
}

// shared is llmgov that shares its limits through Redis.
var shared = contestant{
	name:    "llmgov + Redis",
	setting: "the same with `store: redis://…`, by which gateways share each limit",
	store:   true,
	open:    openLlmgov,
	charged: chargedByLlmgov,
	spent:   spentByLlmgov,
}

func openLlmgov(ctx context.Context, b *bench, s *site) (*gateway, error) {
	data, err := freeAddr()
	if err != nil {
		return nil, err
	}
	admin, err := freeAddr()
	if err != nil {
		return nil, err
	}
	if _, err := s.write("tenants.yaml", llmgovTenants(s)); err != nil {
		return nil, err
	}
	config, err := s.write("llmgov.yaml", llmgovConfig(s, data, admin))
	if err != nil {
		return nil, err
	}
	p, err := start(ctx, command{
		name: "llmgov", core: gatewayCore, dir: s.dir, addr: data, env: []string{"GOMAXPROCS=1"},
		args: []string{b.llmgov, "serve", "-c", config},
	})
	if err != nil {
		return nil, err
	}
	g := newGateway(p)
	g.admin = "http://" + admin
	return g, nil
}

// llmgovConfig has the model server's limit as the pool's, or one that is not reached.
func llmgovConfig(s *site, data, admin string) []byte {
	limits := "tpm: 100000000000, rpm: 100000000, concurrency: 10000"
	if s.rpm > 0 {
		limits = fmt.Sprintf("rpm: %d", s.rpm)
	}
	store := "memory"
	if s.store != "" {
		store = "redis://" + s.store
		limits += fmt.Sprintf(", expect_nodes: %d", s.gateways)
	}
	return fmt.Appendf(nil, `listen: %q
admin: {listen: %q}
store: %q
policies: [tenants.yaml]
upstreams: {model: {base_url: "%s/v1"}}
pools: {p: {models: ["*"], %s}}
`, data, admin, store, s.model.url, limits)
}

func llmgovTenants(s *site) []byte {
	text := []byte("tenants:\n")
	for _, t := range s.tenants {
		text = fmt.Appendf(text, "  %s: {keys: [%q]", t.name, tenants.HashKey(t.key()))
		var budgets []string
		if t.calls > 0 {
			budgets = append(budgets, fmt.Sprintf("{requests: %d, per: month}", t.calls))
		}
		if t.budget > 0 {
			budgets = append(budgets, fmt.Sprintf("{tokens: %d, per: month}", t.budget))
		}
		if budgets != nil {
			text = fmt.Appendf(text, ", budgets: [%s]", strings.Join(budgets, ", "))
		}
		text = appendLimit(text, "tpm", t.tpm)
		text = appendLimit(text, "concurrency", t.parallel)
		if !s.dynamic {
			text = appendLimit(text, "rpm", t.rpm)
		}
		text = append(text, ", max_wait: 5s}\n"...)
	}
	return text
}

func appendLimit(text []byte, name string, n int64) []byte {
	if n == 0 {
		return text
	}
	return fmt.Appendf(text, ", %s: %d", name, n)
}

// chargedByLlmgov adds up a tenant's input and output in the metrics.
func chargedByLlmgov(ctx context.Context, g *gateway, t tenant) (int64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, g.admin+"/metrics", http.NoBody)
	if err != nil {
		return 0, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	return tokensOf(resp.Body, t.name)
}

// spentByLlmgov asks as the tenant does.
func spentByLlmgov(ctx context.Context, g *gateway, t tenant) (int64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, g.url+"/v1/usage", http.NoBody)
	if err != nil {
		return 0, err
	}
	req.Header.Set("Authorization", "Bearer "+t.key())
	resp, err := g.client.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	var usage struct {
		Budgets []struct {
			Unit string
			Used int64
		}
	}
	if err := json.NewDecoder(resp.Body).Decode(&usage); err != nil {
		return 0, err
	}
	for _, b := range usage.Budgets {
		if b.Unit == "tokens" {
			return b.Used, nil
		}
	}
	return 0, fmt.Errorf("/v1/usage has no budget of tokens: status %d", resp.StatusCode)
}

func tokensOf(metrics io.Reader, tenant string) (sum int64, err error) {
	lines := bufio.NewScanner(metrics)
	for lines.Scan() {
		labels, value, _ := strings.Cut(lines.Text(), "} ")
		counted := strings.Contains(labels, `kind="input"`) || strings.Contains(labels, `kind="output"`)
		if !strings.HasPrefix(labels, "llmgov_tokens_total{") || !counted || !strings.Contains(labels, `tenant="`+tenant+`"`) {
			continue
		}
		n, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return 0, err
		}
		sum += int64(n)
	}
	return sum, lines.Err()
}
