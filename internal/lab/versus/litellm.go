package main

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// liteLLM is the LiteLLM proxy with Redis. Its own database of keys needs a program that no package registry has, so its keys
// come from custom_auth, with the same checks behind it: the limiter, and budgets reserved before each call.
var liteLLM = contestant{
	name: "LiteLLM",
	setting: "the proxy with Redis (`coordination_redis`), limits and budgets of keys by `custom_auth` with " +
		"`custom_auth_run_common_checks`, no retries, one worker",
	store: true,
	open:  openLiteLLM,
	charged: func(ctx context.Context, g *gateway, t tenant) (int64, error) {
		tokens, err := sumOfKeys(ctx, g.store, "{api_key:"+liteLLMHash(t)+"}:tokens")
		return int64(tokens), err
	},
	spent: func(ctx context.Context, g *gateway, t tenant) (int64, error) {
		dollars, err := sumOfKeys(ctx, g.store, "spend:key:"+liteLLMHash(t))
		return int64(math.Round(dollars / dollarsPerToken)), err
	},
}

//go:embed litellm_auth.py
var liteLLMAuth []byte

// dollarsPerToken is the price of a token in LiteLLM, whose budgets are in dollars.
const dollarsPerToken = 1e-6

func openLiteLLM(ctx context.Context, b *bench, s *site) (*gateway, error) {
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	keys, err := liteLLMKeys(s)
	if err != nil {
		return nil, err
	}
	if _, err := s.write("keys.json", keys); err != nil {
		return nil, err
	}
	if _, err := s.write("keys.py", liteLLMAuth); err != nil {
		return nil, err
	}
	config, err := s.write("litellm.yaml", liteLLMConfig(s))
	if err != nil {
		return nil, err
	}
	p, err := start(ctx, command{
		name: "litellm", core: gatewayCore, dir: s.dir, addr: addr,
		env: []string{
			"LITELLM_LOCAL_MODEL_COST_MAP=True", "LITELLM_LOG=ERROR", "PYTHONDONTWRITEBYTECODE=1",
			"LITELLM_MASTER_KEY=sk-0123456789abcdef0123456789abcdef0123456789abcdef",
		},
		args: []string{b.liteLLM, "--config", config, "--host", "127.0.0.1", "--port", portOf(addr), "--num_workers", "1", "--telemetry", "False"},
	})
	if err != nil {
		return nil, err
	}
	return newGateway(p), nil
}

func liteLLMConfig(s *site) []byte {
	limit := ""
	callbacks := ""
	if s.rpm > 0 {
		limit = fmt.Sprintf(", rpm: %d", s.rpm)
	}
	if s.dynamic {
		callbacks = `callbacks: ["dynamic_rate_limiter_v3"], `
	}
	host := strings.TrimSuffix(s.store, ":"+portOf(s.store))
	return fmt.Appendf(nil, `model_list:
  - model_name: gpt-4o
    litellm_params: {model: openai/gpt-4o, api_base: "%s/v1", api_key: none, max_retries: 0, input_cost_per_token: %.7f, output_cost_per_token: %.7f%s}
litellm_settings: {%srequest_timeout: 600, num_retries: 0, enable_post_custom_auth_checks: true}
router_settings: {disable_cooldowns: true, num_retries: 0}
general_settings:
  custom_auth: keys.who
  custom_auth_run_common_checks: true
  coordination_redis: {host: %q, port: %s}
`, s.model.url, dollarsPerToken, dollarsPerToken, limit, callbacks, host, portOf(s.store))
}

// liteLLMHash is the name of a key in LiteLLM's counters.
func liteLLMHash(t tenant) string {
	sum := sha256.Sum256([]byte(t.key()))
	return hex.EncodeToString(sum[:])
}

// liteLLMKeys are the limits of each key, as LiteLLM's database would have them.
func liteLLMKeys(s *site) ([]byte, error) {
	keys := map[string]map[string]any{}
	for _, t := range s.tenants {
		limits := map[string]any{"key_alias": t.name}
		rpm := t.rpm
		if t.calls > 0 {
			rpm = t.calls // its budgets are in dollars; the nearest to a number of calls is a limit a minute
		}
		if s.dynamic {
			rpm = 0
		}
		for name, n := range map[string]int64{"rpm_limit": rpm, "tpm_limit": t.tpm, "max_parallel_requests": t.parallel} {
			if n > 0 {
				limits[name] = n
			}
		}
		if t.budget > 0 {
			limits["max_budget"] = float64(t.budget) * dollarsPerToken
		}
		keys[t.key()] = limits
	}
	return json.Marshal(keys)
}

// sumOfKeys adds up the numbers of all keys of Redis that fit a pattern.
func sumOfKeys(ctx context.Context, store, pattern string) (sum float64, err error) {
	client := redis.NewClient(&redis.Options{Addr: store})
	defer client.Close()
	names, err := client.Keys(ctx, pattern).Result()
	if err != nil {
		return 0, err
	}
	for _, name := range names {
		text, err := client.Get(ctx, name).Result()
		if err != nil {
			return 0, err
		}
		n, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return 0, fmt.Errorf("redis key %s: %w", name, err)
		}
		sum += n
	}
	return sum, nil
}
