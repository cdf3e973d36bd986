// Command llmgov is a gateway that governs LLM traffic. See the README.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"
	_ "time/tzdata" // because budgets begin in time zones that the machine may lack

	"github.com/alecthomas/kong"

	"github.com/llmgov/llmgov/tenants"
)

func main() {
	os.Exit(run(untilSignalled(), os.Args[1:], os.Environ(), os.Stdout, os.Stderr))
}

// errAskedToStop is the cause of a context that ends by a signal or the admin API, while load balancers still
// send calls; Ctrl-C at a terminal has another.
var errAskedToStop = errors.New("asked to stop")

// untilSignalled ends with the first signal, which drains; a second one kills the process.
func untilSignalled() context.Context {
	ctx, end := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		first := <-signals
		signal.Stop(signals)
		if first == syscall.SIGTERM {
			end(errAskedToStop)
		}
		end(nil)
	}()
	return ctx
}

// Exit codes.
const (
	exitOK    = 0
	exitBad   = 1 // the command or its check failed, or the target was not found
	exitUsage = 2 // the command line is wrong, whether or not the target exists
)

// env is the environment of a command.
type env struct {
	ctx            context.Context
	vars           []string
	stdout, stderr io.Writer
}

type cli struct {
	Serve      serveCmd      `cmd:"" help:"Run the gateway. Without a config file it starts in quickstart mode."`
	Check      checkCmd      `cmd:"" help:"Check config and policy files, and print the resulting limits."`
	Explain    explainCmd    `cmd:"" help:"Show the limits that a call would meet, strictest first, and the decision now."`
	Top        topCmd        `cmd:"" help:"Watch a running gateway in a terminal: pools, shares, queues, leases, nodes."`
	Presets    presetsCmd    `cmd:"" help:"Show the built-in presets: configs and tiers to start from."`
	Schema     schemaCmd     `cmd:"" help:"Print the JSON Schema of config and policy files, for editors."`
	Import     importCmd     `cmd:"" help:"Convert the config of another gateway into files of llmgov."`
	Simulate   simulateCmd   `cmd:"" help:"Run a traffic scenario through the admission code, and compare it with the ideal."`
	Plan       planCmd       `cmd:"" help:"Replay a decision log against a candidate policy: which calls would newly be refused or admitted."`
	Load       loadCmd       `cmd:"" help:"Send calls at given rates, and report their outcomes and latencies."`
	Mock       mockCmd       `cmd:"" help:"Run the simulated OpenAI-compatible model server alone."`
	Keys       keysCmd       `cmd:"" help:"Make API keys and their hashes."`
	Version    versionCmd    `cmd:"" help:"Print the version."`
	Dashboards dashboardsCmd `cmd:"" help:"Write Grafana dashboards, Prometheus rules and alerts."`
}

// Help is printed below the flags.
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
	if len(args) == 0 {
		args = []string{"--help"}
	}
	kctx, err := parser.Parse(args)
	if exited { // --help
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

// calledWrongly reports whether the command line is at fault, if only partly.
func calledWrongly(err error) bool {
	if problems, ok := errors.AsType[tenants.Problems](err); ok {
		return slices.ContainsFunc(problems, tenants.OfFlag)
	}
	_, ok := errors.AsType[*usageError](err)
	return ok
}

// errTold ends a command with exitBad whose output has already named the problem.
var errTold = errors.New("llmgov: BUG: told already")

// usageError is a wrong command line.
type usageError struct{ what string }

func (e *usageError) Error() string { return "llmgov: " + e.what }
