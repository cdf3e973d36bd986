package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/llmgov/llmgov/cmd/llmgov/report"
	"github.com/llmgov/llmgov/federation/store"
	"github.com/llmgov/llmgov/internal/proxy/gateway"
	"github.com/llmgov/llmgov/internal/run/instance"
	"github.com/llmgov/llmgov/tenants"
)

type checkCmd struct {
	Config    string   `short:"c" placeholder:"FILE" help:"The config file. Default llmgov.yaml, if it exists."`
	Effective bool     `help:"Print every limit that applies to each tenant, and its place in the files, instead of a summary."`
	Tenant    string   `placeholder:"NAME" help:"Print only this tenant or team, and its teams."`
	Upstreams bool     `help:"Also call each upstream of each pool once, for an answer of one token, and print the limits that it declares beside the configured ones."`
	JSON      bool     `name:"json" help:"Print one JSON object, with everything, instead of tables."`
	Files     []string `arg:"" optional:"" name:"FILE" help:"Policy files to check as if the config named them too. Without a config they are checked alone."`
}

func (checkCmd) Help() string {
	return `Example: llmgov check -c llmgov.yaml tenants/new.yaml

Exit codes: 0 all files are valid, 1 there are problems, 2 the command line is wrong.`
}

func (c checkCmd) Run(e *env) error {
	config := configHere(c.Config)
	files := distinct(c.Files)
	if config == "" {
		return c.withoutConfig(e, files)
	}
	files = slices.DeleteFunc(files, func(f string) bool { return filepath.Clean(f) == filepath.Clean(config) })
	var set tenants.AtRuntime
	var unread error
	snap, err := tenants.Load(config, tenants.Options{Env: e.vars, More: files, Store: store.Check, Runtime: func(cfg *tenants.Config) []tenants.RuntimeTenant {
		set, unread = atRuntime(e, cfg)
		return set.Tenants
	}})
	if err != nil {
		return c.printProblems(e, err)
	}
	snap = snap.WithOverrides(set.Overrides)
	set.Tenants = slices.DeleteFunc(set.Tenants, func(t tenants.RuntimeTenant) bool {
		return slices.ContainsFunc(snap.Aside(), func(aside tenants.RuntimeTenant) bool { return aside.Tenant == t.Tenant })
	})
	r := report.New(config, snap, time.Now())
	if c.Tenant != "" {
		if _, err := snap.AskTenant(c.Tenant); err != nil {
			return c.printProblems(e, err)
		}
		r.Narrow(c.Tenant)
	}
	r.AtRuntime(&set)
	r.Notes = append(r.Notes, snap.Unfit()...)
	if unread != nil {
		r.Notes = append(r.Notes, "what was set at run time cannot be read here: "+unread.Error())
	}
	switch {
	case c.Upstreams && (c.JSON || c.Effective):
		return &usageError{"--upstreams goes with neither --json nor --effective"}
	case c.JSON:
		return writeJSON(e, r)
	case c.Effective:
		return r.WriteEffective(e.stdout)
	}
	err = r.WriteSummary(e.stdout)
	if c.Upstreams && err == nil {
		err = writeDeclared(e.ctx, e.stdout, snap.Config(), gateway.NewTransport(false))
	}
	return err
}

// atRuntime is what operators have set at gateways of the config, as far as the store, or state_dir, can be read here.
func atRuntime(e *env, cfg *tenants.Config) (set tenants.AtRuntime, err error) {
	if cfg.StateDir != "" {
		set, err = instance.AtRuntime(e.ctx, nil, cfg.StateDir, time.Now())
	}
	if cfg.Store == "memory" {
		return set, err
	}
	at, err := store.Open(cfg.Store, func(string, string) {})
	if err != nil {
		return set, err
	}
	defer at.Close()
	ctx, cancel := context.WithTimeout(e.ctx, time.Second)
	defer cancel()
	shared, err := instance.AtRuntime(ctx, at, "", time.Now())
	if err != nil {
		return set, err
	}
	return shared, nil
}

// withoutConfig checks policy files when there is no config.
func (c checkCmd) withoutConfig(e *env, files []string) error {
	if len(files) == 0 {
		return &usageError{"there is no " + defaultConfig + " here; name a config with -c, or policy files"}
	}
	if c.Effective || c.Tenant != "" {
		return &usageError{"--effective and --tenant need a config; name one with -c"}
	}
	if slices.ContainsFunc(files, func(f string) bool { return filepath.Base(f) == defaultConfig }) {
		return &usageError{"name the config with -c; files named without it are policy files"}
	}
	tiers, list, err := tenants.Alone(files, tenants.Options{Env: e.vars})
	if err != nil {
		return c.printProblems(e, err)
	}
	if c.JSON {
		return writeJSON(e, map[string]any{"ok": true, "syntax_only": true, "tiers": tiers, "tenants": list})
	}
	fmt.Fprintf(e.stdout, "Tiers: %d, tenants: %d, well written.\n"+
		"Only the syntax was checked: without a config, tiers, pools and models are not known.\n", tiers, list)
	return nil
}

// printProblems prints the problems of files. Other errors are returned.
func (c checkCmd) printProblems(e *env, err error) error {
	problems, ok := errors.AsType[tenants.Problems](err)
	switch {
	case c.JSON:
		if !ok {
			problems = tenants.Problems{{What: err.Error()}}
		}
		if err := writeJSON(e, map[string]any{"ok": false, "problems": problems}); err != nil {
			return err
		}
		return errTold
	case !ok:
		return err
	}
	fmt.Fprintln(e.stdout, err)
	return errTold
}

// distinct are the files without duplicates.
func distinct(files []string) []string {
	var out []string
	for _, f := range files {
		if !slices.ContainsFunc(out, func(o string) bool { return filepath.Clean(o) == filepath.Clean(f) }) {
			out = append(out, f)
		}
	}
	return out
}
