package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing/fstest"

	"github.com/llmgov/llmgov/cmd/llmgov/litellm"
	"github.com/llmgov/llmgov/tenants"
	"github.com/llmgov/llmgov/tenants/keyfile"
)

type importCmd struct {
	Litellm importLitellmCmd `cmd:"" help:"Turn the config of a LiteLLM proxy into llmgov.yaml and tenants/*.yaml."`
}

func (importCmd) Help() string { return `Example: llmgov import litellm config.yaml -o llmgov` }

type importLitellmCmd struct {
	Config string `arg:"" name:"CONFIG" help:"The config of LiteLLM."`
	Prices string `placeholder:"FILE" help:"LiteLLM's price map (model_prices_and_context_window.json), for models whose price the config does not say."`
	Strict bool   `help:"Write nothing, and exit with 1, if limits, models or keys would be lost."`
	Out    string `short:"o" default:"." placeholder:"DIR" help:"The folder to write to. No file is overwritten. Default: this one."`
}

func (importLitellmCmd) Help() string {
	return `Example: llmgov import litellm config.yaml -o llmgov

Settings without a counterpart are listed, each with its place: first limits, models and keys that are lost. Budgets in dollars need
the prices of all their models: if some are missing, nothing is written, and they are listed. A key that could be guessed from its
hash is lost, too. Teams and keys that LiteLLM keeps in its database are not read;
its keys are hashed as ours are, so "sha256:" and a token of that database is a key's hash here.

Exit codes: 0 written, 1 nothing could be written, 2 the command line is wrong.`
}

func (c importLitellmCmd) Run(e *env) error {
	data, err := os.ReadFile(c.Config)
	if err != nil {
		return fmt.Errorf("llmgov: cannot read the config of LiteLLM: %w", err)
	}
	opt := litellm.Options{Env: variables(e.vars), Include: c.include, NewKey: func(name string) (string, string) {
		key := keyfile.NewKey(keyName(name))
		return key, tenants.HashKey(key).String()
	}}
	if opt.Prices, err = c.prices(); err != nil {
		return err
	}
	result, err := litellm.Convert(c.Config, data, opt)
	switch {
	case errors.Is(err, litellm.ErrPrices):
		writeNotes(e, result.Notes)
		return fmt.Errorf("llmgov: %w, so nothing was written; give LiteLLM's price map by --prices model_prices_and_context_window.json, or add input_cost_per_token and "+
			"output_cost_per_token to model_info of these models, or remove the budgets", err)
	case errors.Is(err, litellm.ErrNothing):
		writeNotes(e, result.Notes)
	}
	if err != nil {
		return fmt.Errorf("llmgov: %w", err)
	}
	if c.Strict && len(result.Notes) > 0 && result.Notes[0].Weight == litellm.Lost {
		writeNotes(e, result.Notes)
		return errors.New("llmgov: limits, models or keys would be lost, so nothing was written; add them by hand after an import without --strict")
	}
	if err := loads(e, result.Files); err != nil {
		return fmt.Errorf("llmgov: the files converted from %s would be invalid, and were not written:\n%w", c.Config, err)
	}
	if err := writeNew(c.Out, result); err != nil {
		return err
	}
	return c.print(e, result)
}

// include reads a file that the config includes, from the config's folder.
func (c importLitellmCmd) include(name string) ([]byte, error) {
	if !filepath.IsAbs(name) {
		name = filepath.Join(filepath.Dir(c.Config), name)
	}
	return os.ReadFile(name)
}

// prices reads the price map; nil without one.
func (c importLitellmCmd) prices() (litellm.Prices, error) {
	if c.Prices == "" {
		return nil, nil
	}
	data, err := os.ReadFile(c.Prices)
	if err != nil {
		return nil, fmt.Errorf("llmgov: cannot read LiteLLM's prices: %w", err)
	}
	prices, err := litellm.ReadPrices(data)
	if err != nil {
		return nil, fmt.Errorf("llmgov: %s: %w", c.Prices, err)
	}
	return prices, nil
}

// print lists the files and keys that were written, and the settings that could not be converted.
func (c importLitellmCmd) print(e *env, r *litellm.Result) error {
	for _, f := range r.Files {
		fmt.Fprintln(e.stdout, "Wrote", filepath.Join(c.Out, filepath.FromSlash(f.Name)))
	}
	if len(r.Keys) > 0 {
		fmt.Fprint(e.stdout, "\nNew keys, shown once; the files hold their hashes:\n")
		for _, k := range r.Keys {
			fmt.Fprintf(e.stdout, "  %s  %s\n", k.Tenant, k.Key)
		}
	}
	writeNotes(e, r.Notes)
	_, err := fmt.Fprintf(e.stdout, "\nNext: llmgov check -c %s\n", filepath.Join(c.Out, "llmgov.yaml"))
	return err
}

var noteTitles = map[litellm.Weight]string{
	litellm.Lost:     "Lost: limits, models and keys that the new files do not have",
	litellm.Differs:  "With another meaning",
	litellm.Harmless: "Left out",
}

// writeNotes lists notes below the titles of their weights.
func writeNotes(e *env, notes []litellm.Note) {
	for i, n := range notes {
		if i == 0 || n.Weight != notes[i-1].Weight {
			fmt.Fprintf(e.stdout, "\n%s:\n", noteTitles[n.Weight])
		}
		fmt.Fprintf(e.stdout, "  %s:%d:%d: %s: %s\n", n.File, n.Line, n.Col, n.Path, n.What)
	}
}

// loads reports the problems of files before they are written. Variables that are not set here count as set, because
// they will be when llmgov runs.
func loads(e *env, files []litellm.File) error {
	fsys := fstest.MapFS{}
	vars := litellm.StandIns(files)
	for _, f := range files {
		fsys[f.Name] = &fstest.MapFile{Data: []byte(f.Text)}
	}
	for _, v := range e.vars { // without LLMGOV_…, which are settings of serve
		if !strings.HasPrefix(v, "LLMGOV_") {
			vars = append(vars, v)
		}
	}
	_, err := tenants.LoadFS(fsys, "llmgov.yaml", tenants.Options{Env: vars})
	return err
}

// writeNew writes all files, or none if one of them exists.
func writeNew(dir string, r *litellm.Result) error {
	var there []string
	for _, f := range r.Files {
		name := filepath.Join(dir, filepath.FromSlash(f.Name))
		if _, err := os.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
			there = append(there, name)
		}
	}
	if len(there) > 0 {
		return fmt.Errorf("llmgov: would overwrite %s; remove them, or choose another folder with -o", strings.Join(there, ", "))
	}
	if others, _ := fs.Glob(os.DirFS(dir), "tenants/*.yaml"); len(others) > 0 {
		return fmt.Errorf("llmgov: %s has other policy files already (%s), which the new llmgov.yaml would include; choose another folder with -o",
			dir, strings.Join(others, ", "))
	}
	for _, f := range r.Files {
		mode := fs.FileMode(0o644)
		if r.Secrets && f.Name == "llmgov.yaml" {
			mode = 0o600
		}
		if err := createFile(filepath.Join(dir, filepath.FromSlash(f.Name)), f.Text, mode); err != nil {
			return fmt.Errorf("llmgov: %w", err)
		}
	}
	return nil
}

// createFile makes a file and its folders.
func createFile(name, text string, mode fs.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// keyName is a tenant's name as part of a key.
func keyName(tenant string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(tenant))
}

// variables makes a map of a list like os.Environ().
func variables(list []string) map[string]string {
	m := map[string]string{}
	for _, entry := range list {
		if name, value, ok := strings.Cut(entry, "="); ok {
			m[name] = value
		}
	}
	return m
}
