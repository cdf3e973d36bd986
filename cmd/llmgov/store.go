package main

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/llmgov/llmgov/federation"
	"github.com/llmgov/llmgov/federation/store"
	"github.com/llmgov/llmgov/internal/run/instance"
	"github.com/llmgov/llmgov/tenants"
)

type storeCmd struct {
	New storeNewCmd `cmd:"" help:"Declare that no gateway has used the store's pools in the last minute, so that the first one need not wait for one."`
}

func (storeCmd) Help() string { return `Example: llmgov store new -c llmgov.yaml` }

type storeNewCmd struct {
	Config string `short:"c" placeholder:"FILE" help:"The config file, with the store and the pools. Default llmgov.yaml, if it exists."`
	Store  string `placeholder:"URL" help:"The store, if the config does not name it: postgres://… or redis://…"`
}

func (storeNewCmd) Help() string {
	return `Example: llmgov store new -c llmgov.yaml && llmgov serve -c llmgov.yaml

A store without data of the last minute grants nothing for a minute, because gateways that it does not know may have used
the limits. Run this before the first gateway starts, if you know that none has. It is good for the data that are in the
store from then on: if they are lost, the minute is waited for again. Budgets and what tenants have used stay as they are.

It waits for 3.5 s, and is refused while a gateway runs, or if one that has used a pool ended less than a minute ago.

Exit codes: 0 the next gateway is granted at once, 1 refused, or the store does not answer, 2 the command line is wrong.`
}

func (s storeNewCmd) Run(e *env) error {
	config := configHere(s.Config)
	if config == "" {
		return &usageError{"there is no " + defaultConfig + " here; name a config with -c"}
	}
	opt := tenants.Options{Env: e.vars, Store: store.Check}
	if s.Store != "" {
		opt.Flags = map[string]string{"store": s.Store}
	}
	snap, err := tenants.Load(config, opt)
	if err != nil {
		return err
	}
	address := snap.Config().Store
	if address == "memory" {
		return errors.New("llmgov: the config has no store that gateways share (store: memory), so nothing has to be declared")
	}
	at, err := store.Open(address, func(string, string) {})
	if err != nil {
		return fmt.Errorf("llmgov: store: %w", err)
	}
	defer at.Close()
	var names []string
	for _, p := range snap.Pools() {
		names = append(names, p.Name)
	}
	done, err := instance.DeclareNew(e.ctx, at, names)
	if used, ok := errors.AsType[*federation.InUseError](err); ok {
		return fmt.Errorf("llmgov: the store is in use: %w. %s%s", used, whatToDo(used), already(done))
	}
	if err != nil {
		return fmt.Errorf("llmgov: store: %w%s", err, already(done))
	}
	fmt.Fprintf(e.stdout, "Declared new: %s. The next gateway is granted its limits at once.\n", strings.Join(names, ", "))
	return nil
}

// already says which pools were declared new before the command was refused.
func already(done []string) string {
	if len(done) == 0 {
		return ""
	}
	return ". Declared new nevertheless: " + strings.Join(done, ", ") + ", perhaps without slots"
}

// whatToDo is the advice about a store that is in use.
func whatToDo(used *federation.InUseError) string {
	switch {
	case used.Wait > 0 && used.Ago > 0:
		return fmt.Sprintf("If it runs, stop it. What it may have used counts for another %.0f s; run this again then", math.Ceil(used.Wait.Seconds()))
	case used.Node == "":
		return "Stop all gateways, and run this again when their calls are over, a minute later at most"
	}
	return "Stop all gateways, and run this again"
}
