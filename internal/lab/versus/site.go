package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"

	"github.com/llmgov/llmgov/internal/lab/mock"
)

// site is a model server, and what callers may do there. Every gateway gets the same.
type site struct {
	dir     string
	model   *model
	tenants []tenant
	// rpm is the model server's limit; 0 if it has none.
	rpm int64
	// dynamic asks for a gateway's own way to share rpm between tenants, instead of a limit for each.
	dynamic bool
	// store is the address of a Redis server that gateways share.
	store string
	// gateways is how many of them share it.
	gateways int
}

// tenant is a caller and its limits; 0 is none.
type tenant struct {
	name     string
	calls    int64 // a budget, in calls
	budget   int64 // a budget, in tokens
	tpm      int64 // tokens a minute
	rpm      int64 // calls a minute
	parallel int64 // calls at once
}

func (t tenant) key() string { return "sk-" + t.name + "-0123456789abcdef" }

// write writes a file of the site's folder.
func (s *site) write(name string, text []byte) (string, error) {
	path := filepath.Join(s.dir, name)
	return path, os.WriteFile(path, text, 0o600)
}

// model is the simulated model server.
type model struct {
	*process
	url string // without /v1
}

func startModel(ctx context.Context, llmgov, dir string, flags ...string) (*model, error) {
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	p, err := start(ctx, command{
		name: "model", core: serverCore, dir: dir, addr: addr, env: []string{"GOMAXPROCS=1"},
		args: append([]string{llmgov, "mock", "--listen", addr}, flags...),
	})
	if err != nil {
		return nil, err
	}
	return &model{process: p, url: "http://" + addr}, nil
}

// stats are the counters of the model server.
func (m *model) stats(ctx context.Context) (s mock.Stats, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, m.url+"/_stats", http.NoBody)
	if err != nil {
		return s, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return s, err
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&s); err != nil {
		return s, fmt.Errorf("the model server's counters: %w", err)
	}
	return s, nil
}

// startRedis starts a Redis server that keeps nothing on disk.
func startRedis(ctx context.Context, dir string) (*process, error) {
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	return start(ctx, command{
		name: "redis", core: serverCore, dir: dir, addr: addr,
		args: []string{"redis-server", "--bind", "127.0.0.1", "--port", portOf(addr), "--save", "", "--appendonly", "no", "--dir", dir},
	})
}
