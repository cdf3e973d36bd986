// Command llmgov is a gateway that governs LLM traffic. See the README.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	_ "time/tzdata" // because budgets begin in time zones that the machine may lack

	"github.com/alecthomas/kong"
)

func main() {
	os.Exit(run(untilSignalled(), os.Args[1:], os.Environ(), os.Stdout, os.Stderr))
}

type cli struct {
	ShowVersion versionFlag `name:"version" short:"v" help:"Print the version."`

	Serve      serveCmd      `cmd:"" help:"Run the gateway. Without a config file it starts in quickstart mode."`
	Check      checkCmd      `cmd:"" help:"Check config and policy files, and print the resulting limits."`
	Explain    explainCmd    `cmd:"" help:"Show the limits that a call would meet, strictest first, and the decision now."`
	Top        topCmd        `cmd:"" help:"Watch a running gateway in a terminal: pools, shares, queues, leases, nodes."`
	Tenants    tenantsCmd    `cmd:"" help:"List the tenants and teams of a running gateway, with what they use of their limits."`
	Spend      spendCmd      `cmd:"" help:"Show what calls cost: by tenant, team, model, upstream and day."`
	Override   overrideCmd   `cmd:"" help:"Have running gateways replace limits of a tenant for a time."`
	Reload     reloadCmd     `cmd:"" help:"Have a running gateway read its files now."`
	Drain      drainCmd      `cmd:"" help:"Have a running gateway end its calls and stop."`
	Presets    presetsCmd    `cmd:"" help:"Show the built-in presets: configs and tiers to start from."`
	Schema     schemaCmd     `cmd:"" help:"Print the JSON Schema of config and policy files, for editors."`
	Import     importCmd     `cmd:"" help:"Convert the config of another gateway into files of llmgov."`
	Simulate   simulateCmd   `cmd:"" help:"Run a traffic scenario through the admission code, and compare it with the ideal."`
	Plan       planCmd       `cmd:"" help:"Replay a decision log against a candidate policy: which calls would newly be refused or admitted."`
	Load       loadCmd       `cmd:"" help:"Send calls at given rates, and report their outcomes and latencies."`
	Mock       mockCmd       `cmd:"" help:"Run the simulated OpenAI-compatible model server alone."`
	Store      storeCmd      `cmd:"" help:"Declare that no gateway has used the shared store lately, so that the first one need not wait for a minute."`
	Keys       keysCmd       `cmd:"" help:"Make, list and revoke API keys."`
	Version    versionCmd    `cmd:"" help:"Print the version."`
	Completion completionCmd `cmd:"" help:"Print a script that completes commands and flags in a shell."`
	Dashboards dashboardsCmd `cmd:"" help:"Write Grafana dashboards, Prometheus rules and alerts."`
}

// Help is printed below the flags, as it is of each command.
func (cli) Help() string {
	return `Example: llmgov serve -c llmgov.yaml

Exit codes: 0 ok, 1 the command or its check failed, or the target (a file, a tenant, a gateway) was not found, 2 the
command line is wrong: a flag, its value, or the name of something built in.`
}

// run is main without the process: it returns the exit code.
func run(ctx context.Context, args, vars []string, stdout, stderr io.Writer) int {
	exited := false
	code := exitOK
	var c cli
	parser, err := kong.New(&c,
		kong.Name("llmgov"),
		kong.Description("A gateway that shares LLM capacity fairly between tenants."),
		kong.Writers(stdout, stderr),
		kong.Exit(func(n int) {
			exited = true
			code = n
		}),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
	)
	if err != nil {
		panic("llmgov: BUG: " + err.Error())
	}
	if line, ok := completionAsked(vars); ok {
		for _, word := range completions(parser.Model.Node, line) {
			fmt.Fprintln(stdout, word)
		}
		return exitOK
	}
	switch {
	case len(args) == 0:
		args = []string{"--help"}
	case args[0] == "help":
		args = append(args[1:len(args):len(args)], "--help")
	}
	kctx, err := parser.Parse(args)
	if exited { // --help, --version
		return code
	}
	if err != nil {
		fmt.Fprintf(stderr, "llmgov: %v\n", err)
		return exitUsage
	}
	if err := kctx.Run(&env{ctx: ctx, vars: vars, stdout: stdout, stderr: stderr}); err != nil {
		if errors.Is(err, errTold) {
			return exitBad
		}
		fmt.Fprintf(stderr, "%v\n", err)
		if calledWrongly(err) {
			return exitUsage
		}
		return exitBad
	}
	return exitOK
}
