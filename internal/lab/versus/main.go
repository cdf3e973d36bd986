// Command versus compares llmgov with other gateways: a bare httputil.ReverseProxy, Envoy with its own rate limits, and the
// LiteLLM proxy. It writes the figures to docs/comparison.json, and their tables into docs/comparison.md.
//
//	make versus [ARGS='-only budget,cost -rounds 2 -dry']
//
// # Setup
//
//	load (cores 0, 1) ─► gateway (a core of its own) ─► model server (llmgov mock, core 2)
//	                       └─ its store or rate limit service (core 2)
//
// Each gateway is its real program, one process of one thread of work: GOMAXPROCS=1, --concurrency 1, --num_workers 1.
// contestants.go lists them, and each file that is named after one has its whole configuration. All get the same
// tenants and limits, written in their own terms, and nothing that they would need a licence for.
//
// # Method
//
// Whatever depends on the machine is measured in rounds, in which the gateways take turns. A figure is the median of the rounds,
// with the least and the greatest. What a gateway let through is counted by the model server, and CPU time is the
// kernel's own account of the process.
//
// # Limits
//
// All of it runs on one machine without a network between, and the model server answers at once unless a case says otherwise. So it
// compares what gateways add and decide, and not what calls to a real provider take.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
)

// options are the command line.
type options struct {
	only   string
	names  string
	rounds int
	hog    int // rounds of the case of the hog, which takes more than a minute each
	docs   string
	dry    bool

	role     string // this process is a reverse proxy
	listen   string
	upstream string
}

func main() {
	var o options
	flag.StringVar(&o.only, "only", "", "run only the cases of these `names`, with commas: "+strings.Join(caseNames(), ", "))
	flag.StringVar(&o.names, "gateways", "", "compare only the gateways whose `names` begin so, with commas")
	flag.IntVar(&o.rounds, "rounds", 5, "rounds of each case")
	flag.IntVar(&o.hog, "hog-rounds", 2, "rounds of the case hog")
	flag.StringVar(&o.docs, "docs", "docs", "the `folder` of comparison.json and comparison.md")
	flag.BoolVar(&o.dry, "dry", false, "print the tables, and leave the documentation as it is")
	flag.StringVar(&o.role, "role", "", "serve as the bare reverse proxy (the command starts it by itself)")
	flag.StringVar(&o.listen, "listen", "", "its address")
	flag.StringVar(&o.upstream, "upstream", "", "its model server")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "versus:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	if flag.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flag.Arg(0))
	}
	if o.role != "" {
		return serveBare(ctx, o.listen, o.upstream)
	}
	if o.rounds < 1 || o.hog < 1 {
		return errors.New("-rounds and -hog-rounds must be at least 1")
	}
	if o.names != "" && !o.dry {
		return errors.New("-gateways needs -dry: the page compares all of them")
	}
	bench, err := newBench(ctx, o)
	if err != nil {
		return err
	}
	defer bench.close()
	for _, c := range cases {
		if !chosen(o.only, c.name) {
			continue
		}
		fmt.Fprintf(os.Stderr, "%s: %s\n", c.name, c.title)
		if err := c.run(ctx, bench); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		bench.report.finish(bench.commit)
	}
	if o.dry {
		fmt.Print(tables(bench.report))
		return nil
	}
	return bench.report.write(o.docs)
}

// chosen reports whether a list with commas names this; an empty one names all.
func chosen(list, name string) bool {
	if list == "" {
		return true
	}
	for part := range strings.SplitSeq(list, ",") {
		if part != "" && strings.HasPrefix(name, part) {
			return true
		}
	}
	return false
}
