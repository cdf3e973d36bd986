package main

import (
	"os"

	"github.com/llmgov/llmgov/tenants"
)

// defaultConfig is the config of commands without -c.
const defaultConfig = "llmgov.yaml"

// configHere is the named config, else llmgov.yaml if it exists here.
func configHere(named string) string {
	if named != "" {
		return named
	}
	if _, err := os.Stat(defaultConfig); err != nil {
		return ""
	}
	return defaultConfig
}

// loadFiles reads the policy and the settings, as far as their secrets are known here. Without files it returns settings alone.
func loadFiles(e *env, config string) (*tenants.Snapshot, *tenants.Config, error) {
	config = configHere(config)
	if config == "" {
		cfg, err := tenants.Overlay(tenants.DefaultConfig(), tenants.Options{Env: e.vars})
		return nil, &cfg, err
	}
	snap, err := tenants.Load(config, tenants.Options{Env: e.vars, WithoutSecrets: true})
	if err != nil {
		return nil, nil, err
	}
	return snap, snap.Config(), nil
}
