package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/llmgov/llmgov/cmd/llmgov/report"
	_ "github.com/llmgov/llmgov/federation/postgres" // the stores of the product
	_ "github.com/llmgov/llmgov/federation/redis"
	"github.com/llmgov/llmgov/federation/store"
	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/lib/connections"
	"github.com/llmgov/llmgov/internal/ops/crash"
	"github.com/llmgov/llmgov/internal/ops/logging"
	"github.com/llmgov/llmgov/internal/ops/readiness"
	"github.com/llmgov/llmgov/internal/proxy/gateway"
	"github.com/llmgov/llmgov/internal/run/instance"
	"github.com/llmgov/llmgov/tenants"
)

type serveCmd struct {
	Config      string `short:"c" placeholder:"FILE" help:"The config file. Without it: quickstart mode, with three tenants whose keys are printed."`
	Listen      string `placeholder:"ADDR" help:"The address for tenants. Port 0 picks a free one. Default :8080."`
	AdminListen string `placeholder:"ADDR" help:"The address for operators: metrics, console and admin API. Default 127.0.0.1:9090."`
	Store       string `placeholder:"URL" help:"The store through which gateways share limits: postgres://user:password@host/database or redis://user:password@host:6379. Default memory, which shares nothing."`
	Node        string `placeholder:"NAME" help:"This process's name, unique among gateways that share a store. Default: host name and process id."`
	Region      string `placeholder:"NAME" help:"The region of this process. Default local."`
	Traffic     bool   `help:"Add demo load, in quickstart mode."`
}

func (serveCmd) Help() string {
	return `Example: llmgov serve -c llmgov.yaml --listen :8080`
}

func (s serveCmd) Run(e *env) error {
	if s.Traffic && s.Config != "" {
		return &usageError{"--traffic is for quickstart mode: it needs the keys of the demo tenants"}
	}
	hangup := make(chan os.Signal, 1) // before the files are read, because a signal may come right after
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	atRuntime := &instance.Tenants{}
	opt := tenants.Options{Env: e.vars, Flags: s.flags(), Store: store.Check, Runtime: atRuntime.Of}
	var snap *tenants.Snapshot
	var q *quickstart
	var err error
	if s.Config != "" {
		snap, err = tenants.Load(s.Config, opt)
	} else {
		q, err = newQuickstart(e.vars)
		if err != nil {
			return err
		}
		defer q.close()
		snap, err = q.snapshot(opt)
	}
	if err != nil {
		return err
	}
	if s.Traffic && q.server == nil {
		return &usageError{"--traffic would spend your tokens at " + q.upstream.BaseURL + ": unset OPENAI_API_KEY and OPENAI_BASE_URL to try it on the simulated model server"}
	}
	from := source{snap: snap, hangup: hangup, demo: q}
	if s.Config != "" {
		from.set = atRuntime
		from.follow = func(ctx context.Context) (*tenants.Watcher, error) { return tenants.Watch(ctx, s.Config, snap, opt) }
	}
	return serve(e, from, s.Traffic)
}

// source is the origin of the policy.
type source struct {
	snap   *tenants.Snapshot
	follow func(context.Context) (*tenants.Watcher, error) // the files; nil in quickstart mode
	set    *instance.Tenants                               // with which the files are loaded
	hangup <-chan os.Signal                                // reads them again at once
	demo   *quickstart                                     // nil with files
}

// watch follows the files, if there are any, until ctx ends.
func (s source) watch(ctx context.Context) (*tenants.Watcher, error) {
	if s.follow == nil {
		return nil, nil
	}
	return s.follow(ctx)
}

// flags are the settings given on the command line.
func (s serveCmd) flags() map[string]string {
	m := map[string]string{}
	for key, value := range map[string]string{
		"listen": s.Listen, "admin.listen": s.AdminListen, "store": s.Store, "node": s.Node, "region": s.Region,
	} {
		if value != "" {
			m[key] = value
		}
	}
	return m
}

// serve runs until the context ends, then drains.
//
//	data listener ──► Gateway ──► Governor ──► escrow
//	                     │ ▲ world  └──► Journal (state_dir)
//	                     │        └──► events.Ring, decisions.Writer (decision_log)
//	                     │        └──► sharing ──► store, if one is shared
//	                     └──► objects.Store (state_dir)
//	admission listener ──► reservations ──► Governor
//	admin listener ──► Admin ──► metrics, state
//	files ──► reloader ──► Gateway.Apply ──► Governor, world
func serve(e *env, from source, demoLoad bool) (err error) {
	snap := from.snap
	cfg := snap.Config()
	log, endLog := logging.New(e.stderr, logFormat(e))
	crash.Finally(endLog)
	defer endLog()
	p := &parts{log: log}
	defer func() { err = errors.Join(err, p.close()) }()
	if err := p.build(e.ctx, snap, from.demo != nil); err != nil {
		return err
	}
	debug.FreeOSMemory() // because reading the files took as much memory again as the policy has
	dataTLS, err := p.certificate("tls", cfg.TLS, "h2", "http/1.1")
	if err != nil {
		return err
	}
	data, err := listen(cfg.Listen, "--listen")
	if err != nil {
		return err
	}
	admin, err := listen(cfg.Admin.Listen, "--admin-listen")
	if err != nil {
		data.Close()
		return err
	}
	admissions, err := p.newAdmissionSide(cfg)
	if err != nil {
		return errors.Join(err, data.Close(), admin.Close())
	}
	ctx, end := context.WithCancelCause(e.ctx)
	defer end(nil)
	files, err := from.watch(ctx)
	if err != nil {
		admissions.close()
		return errors.Join(err, data.Close(), admin.Close())
	}
	policies := instance.NewReloader(files, snap, func(s *tenants.Snapshot) error {
		err := p.Admission.Apply(s)
		if token := s.Config().Admission.Token; err == nil && token != "" && admissions != nil {
			admissions.SetToken(token)
		}
		return err
	}, p.Metrics, p.log)
	data = dataTLS.Listener(p.bounded(data, cfg))
	admin = p.adminTLS.Listener(connections.New(admin, adminConnections))
	settings := newServer(p.gateway, p.log, cfg.Timeouts.ReadHeader)
	if cfg.H2C || dataTLS != nil {
		speakHTTP2(settings, cfg.H2C)
	}
	settings.MaxHeaderBytes = 4 * gateway.MaxHeader // so that the gateway explains the refusal
	var played *demo
	if demoLoad {
		played = &demo{from: from.demo}
	}
	adminAPI, adminServer := p.adminSide(cfg, func() { end(errAskedToStop) }, policies, played)
	if cfg.Healthz {
		settings.Handler = withHealth(p.gateway, adminAPI.Unready)
	}

	base, cut := context.WithCancelCause(context.Background())
	defer cut(nil)
	settings.BaseContext = func(net.Listener) context.Context { return base }
	dataServer := gateway.NewServer(settings, cfg.LeanHTTP && dataTLS == nil)

	running, ended := context.WithCancel(context.Background())
	defer ended()
	var group errgroup.Group
	p.Announce(readiness.Address(admin.Addr(), store.Server(cfg.Store)))
	group.Go(func() error { return p.Run(running) })
	group.Go(func() error { return p.readiness.Run(running) })
	group.Go(func() error { return p.gateway.Watch(running) })
	group.Go(func() error { return policies.Run(ctx, from.hangup) })
	if from.set != nil {
		p.Follow(ctx, from.set, policies)
	}
	p.Await(ctx)
	group.Go(func() error { defer end(nil); return ignoreClosed(dataServer.Serve(data)) })
	group.Go(func() error { defer end(nil); return ignoreClosed(adminServer.Serve(admin)) })
	if admissions != nil {
		group.Go(func() error { defer end(nil); return admissions.Serve(admissions.Listener) })
	}
	group.Go(func() error {
		<-ctx.Done()
		p.Admission.Leave()
		patience := p.gateway.Snapshot().Config().Timeouts.Drain
		until := time.Now().Add(patience)
		calls := []drain{p.gateway.Drain, admissions.drain} // websockets, and reservations
		shutdown(p.Governor, calls, dataServer, patience, graceOf(context.Cause(ctx), patience), func(cause error) { cut(cause); admissions.cut(cause) }, p.log)
		admissions.close()
		ended()
		p.flush(until)
		if wait(adminServer, nil, time.Second) != nil { // because a hanging scrape must not delay the end
			return adminServer.Close()
		}
		return nil
	})
	group.Go(func() error { return adminAPI.Run(running) })
	group.Go(func() error { return p.notifier(adminAPI).Run(running) })
	if played != nil {
		group.Go(func() error { played.play(ctx, url(data, dataTLS)); return nil })
	}
	greet(e, p.Governor, snap, from.demo, url(data, dataTLS), url(admin, p.adminTLS), admissions.address())
	return group.Wait()
}

// logFormat is text on a terminal and JSON elsewhere.
func logFormat(e *env) func(io.Writer) slog.Handler {
	if isTerminal(e.stderr) {
		return func(w io.Writer) slog.Handler { return slog.NewTextHandler(w, nil) }
	}
	return logging.JSON
}

// isTerminal reports whether people read the output.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	st, err := f.Stat()
	return err == nil && st.Mode()&os.ModeCharDevice != 0
}

// greet prints the addresses once llmgov listens, in quickstart mode with a
// first call to try. With files it writes JSON lines wherever the log does, because both often go to one place.
func greet(e *env, gov *governor.Governor, snap *tenants.Snapshot, q *quickstart, data, admin, admissions string) {
	lines := []string{fmt.Sprintf("llmgov listens on %s, admin on %s%s", data, admin, admissions)}
	if q != nil {
		fmt.Fprint(e.stdout, lines[0]+"\n"+q.welcome(data, admin)) // in one write, because programs wait for it
		return
	}
	var names []string
	for _, p := range snap.Pools() {
		names = append(names, p.Name)
	}
	lines[0] += fmt.Sprintf(" with pools %s, %s, policy %.12s", strings.Join(names, ", "), report.Count(snap), snap.Hash())
	for _, name := range names {
		if store := gov.NewStore(name); store != nil {
			lines = append(lines, store.Countdown(name, time.Now()))
		}
	}
	var text bytes.Buffer
	for _, line := range lines {
		if isTerminal(e.stdout) || isTerminal(e.stderr) {
			fmt.Fprintln(&text, line)
		} else {
			slog.New(logging.JSON(&text)).Info(line)
		}
	}
	_, _ = e.stdout.Write(text.Bytes())
}
