// Command bench measures the cost of llmgov: the CPU time, allocations and bytes of one
// request in the gateway's own process, and the delay of the first byte and of each chunk
// of a stream, compared with a bare httputil.ReverseProxy.
//
//	go run ./internal/lab/bench [-seconds N] [-only names] [-redis] [-json] [-check]
//	go run ./internal/lab/bench -memory
//
// # Setup
//
// Three servers, each a process of its own on loopback, and the load generator
// in this process:
//
//	direct         load ─► model server
//	ReverseProxy   load ─► httputil.ReverseProxy ─► model server
//	llmgov         load ─► llmgov ─► model server
//
// The model server is internal/lab/mock without any latency. The ReverseProxy has only
// the usual settings, a buffer pool and a transport that keeps its connections.
// llmgov runs as its serve command wires it, with
// 1000 tenants, every limit on but out of reach, output clamped, metrics
// counted, and one JSON log line a request to the null device. With -redis it shares all
// limits through a Redis server, as several gateways do.
//
// # Method
//
// For the cost, the load is a closed loop over a fixed number of connections, and checks that
// answers are whole. A process's CPU time is user plus system of its own getrusage(2), read
// over a pipe before and after, in microseconds over thousands of requests. The machine
// drifts, so both proxies are measured in turns of 60 ms, in rounds; the ratio is taken
// within a round, and its median over the rounds is the main figure. Paced streams leave the
// cores idle, and go through both proxies at the same time.
//
// The cost of one more chunk is the difference between a stream of many chunks and a stream of
// one, divided by the number of additional chunks.
//
// For the latency, streams begin at fixed times, few enough that no core is busy, and
// go to the three in turn, at the same time. Each event has the time of its making by the model
// server, on the clock of its reader. The delay of a proxy is the quantile of its waits, less
// that of the waits for the model server alone; the ratio of the two delays is taken within a
// round as well.
//
// By doors, a closed loop of calls goes through each way to llmgov: the proxy, and reservations that
// are committed at once, whose callers call models by themselves, and the messages that Envoy sends. A Go program with the governor inside it is
// the load generator: its CPU time is that of the calls and of counting them.
//
// # Limits
//
// It does not measure the requests a second of a machine, because load and servers share its
// cores. For the same reason the latencies include the time until a core was free; on a machine
// with other users only the ratio is meaningful.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"time"
)

const (
	defaultSeconds = 240
	rounds         = 9
	connections    = 16
)

// options are the command line.
type options struct {
	seconds int
	json    bool
	check   bool
	only    string
	memory  bool

	cpuProfile   string
	memProfile   string
	mutexProfile string

	redis    bool   // llmgov shares its limits through a store
	role     string // this process is a child
	upstream string
	store    string
	tls      string // a file with the model server's certificate and key; "" is without TLS
	http2    bool   // of a model server with TLS
}

func main() {
	var o options
	flag.IntVar(&o.seconds, "seconds", defaultSeconds, "how long to measure, in `seconds`")
	flag.BoolVar(&o.json, "json", false, "print JSON instead of a table")
	flag.BoolVar(&o.check, "check", false, "end with exit code 1 if a row misses its aim")
	flag.BoolVar(&o.redis, "redis", false, "let llmgov share all its limits through a Redis server, which is started for it")
	flag.StringVar(&o.only, "only", "", "measure only the workloads of these `names`, with commas: "+strings.Join(workloadNames(), ", "))
	flag.StringVar(&o.cpuProfile, "cpuprofile", "", "write a CPU profile of llmgov to this `file`")
	flag.StringVar(&o.memProfile, "memprofile", "", "write an allocation profile of llmgov to this `file`; it distorts CPU time")
	flag.StringVar(&o.mutexProfile, "mutexprofile", "", "write a profile of waits for locks in llmgov to this `file`")
	flag.BoolVar(&o.memory, "memory", false, "measure what llmgov holds at rest and for calls that stand still, and nothing else")
	flag.StringVar(&o.role, "role", "", "serve as one of the processes under test (the benchmark starts these itself)")
	flag.StringVar(&o.upstream, "upstream", "", "where the model server is, for -role")
	flag.StringVar(&o.store, "store", alone, "the store of shared limits, for -role")
	flag.StringVar(&o.tls, "tls", "", "a `file` with a certificate and its key, for -role")
	flag.BoolVar(&o.http2, "http2", false, "speak HTTP/2, for -role with -tls")
	flag.Parse()

	if err := run(o); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(o options) error {
	if flag.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flag.Arg(0))
	}
	if o.role != "" {
		return serve(o, os.Stdin, os.Stdout)
	}
	if o.seconds < 1 || o.seconds > 3600 {
		return errors.New("-seconds must be from 1 to 3600")
	}
	chosen, err := choose(o.only)
	if err != nil {
		return err
	}
	// What hangs is cut off: children end with ctx, or with their standard input.
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(o.seconds)*3*time.Second+time.Minute)
	defer cancel()
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
	defer stop()

	if o.redis {
		store, end, err := startRedis()
		if err != nil {
			return err
		}
		defer end()
		o.store = store
	}
	targets, closeAll, err := startAll(ctx, o)
	if err != nil {
		return err
	}
	if o.memory {
		err := errors.Join(measureMemory(ctx, os.Stdout, targets[governed]), closeAll())
		if err != nil {
			return err
		}
		return measureStreamsOverTLS(ctx, os.Stdout, o)
	}
	r, err := measure(ctx, os.Stderr, targets, chosen, time.Duration(o.seconds)*time.Second)
	if err := errors.Join(err, closeAll()); err != nil {
		return err
	}
	r.Store, _, _ = strings.Cut(o.store, ":")
	if r.Store != alone {
		r.shareAims()
	}
	if err := report(os.Stdout, r, o.json); err != nil || !o.check {
		return err
	}
	return r.check()
}

func report(w io.Writer, r *result, asJSON bool) error {
	if !asJSON {
		return writeTable(w, r)
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(r)
}
