package main

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"text/template"
)

// envoyLocal is Envoy with its local rate limits, which are counted in its process.
var envoyLocal = contestant{
	name:    "Envoy, local",
	setting: "`local_ratelimit` with a token bucket of calls for each key; it counts no tokens, and no calls at once for a key",
	open:    openEnvoy,
	lacks:   map[limit]bool{limitBudget: true, limitTPM: true, limitParallel: true},
}

// envoyGlobal is Envoy with its rate limit service, which counts in Redis.
var envoyGlobal = contestant{
	name: "Envoy, global",
	setting: "`ratelimit`, the rate limit service of the Envoy project and Redis; calls are counted before, tokens when a stream is " +
		"done (`apply_on_stream_done`), as Agent Router does; no calls at once for a key",
	store: true,
	open:  openEnvoy,
	charged: func(ctx context.Context, g *gateway, t tenant) (int64, error) {
		n, err := sumOfKeys(ctx, g.store, "versus_key_Bearer "+t.key()+"_kind_tokens_*")
		return int64(n), err
	},
	lacks: map[limit]bool{limitParallel: true},
}

//go:embed envoy.yaml
var envoyText string

//go:embed ratelimit.yaml
var rateLimitText string

var (
	envoyTemplate     = template.Must(template.New("envoy").Parse(envoyText))
	rateLimitTemplate = template.Must(template.New("ratelimit").Parse(rateLimitText))
)

// envoySite is what the templates know.
type envoySite struct {
	Global                    bool
	Port, ModelPort, RatePort string
	Keys                      []envoyKey
}

// envoyKey has the limits of a caller.
type envoyKey struct {
	Key       string
	Calls     int64
	CallsPer  string // minute or day
	Seconds   int    // of that
	Tokens    int64
	TokensPer string
}

func openEnvoy(ctx context.Context, b *bench, s *site) (*gateway, error) {
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	var others []*process
	about := envoySite{Global: s.store != "", Port: portOf(addr), ModelPort: portOf(hostPort(s.model.url)), Keys: envoyKeys(s)}
	if about.Global {
		service, err := startRateLimit(ctx, b, s, about)
		if err != nil {
			return nil, err
		}
		others = append(others, service)
		about.RatePort = portOf(service.addr)
	}
	config, err := s.fill("envoy.yaml", envoyTemplate, about)
	if err != nil {
		return nil, err
	}
	p, err := start(ctx, command{
		name: "envoy", core: gatewayCore, dir: s.dir, addr: addr,
		args: []string{b.envoy, "-c", config, "--concurrency", "1", "--disable-hot-restart", "-l", "error"},
	})
	if err != nil {
		for _, o := range others {
			o.stop()
		}
		return nil, err
	}
	return newGateway(p, others...), nil
}

// fill writes a template's text into a file of the site's folder.
func (s *site) fill(name string, t *template.Template, about any) (string, error) {
	var text bytes.Buffer
	if err := t.Execute(&text, about); err != nil {
		return "", err
	}
	return s.write(name, text.Bytes())
}

// plenty is a limit that is not reached.
const plenty = 1_000_000_000

func envoyKeys(s *site) (keys []envoyKey) {
	for _, t := range s.tenants {
		k := envoyKey{Key: t.key(), Calls: plenty, CallsPer: "day", Seconds: 86_400, Tokens: plenty, TokensPer: "day"}
		if t.calls > 0 {
			k.Calls = t.calls
		}
		if t.rpm > 0 {
			k.Calls = t.rpm
			k.CallsPer = "minute"
			k.Seconds = 60
		}
		if t.budget > 0 {
			k.Tokens = t.budget
		}
		if t.tpm > 0 {
			k.Tokens = t.tpm
			k.TokensPer = "minute"
		}
		keys = append(keys, k)
	}
	return keys
}

// startRateLimit starts the rate limit service of the Envoy project.
func startRateLimit(ctx context.Context, b *bench, s *site, about envoySite) (*process, error) {
	folder := filepath.Join(s.dir, "runtime", "config")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, err
	}
	if _, err := s.fill("runtime/config/versus.yaml", rateLimitTemplate, about); err != nil {
		return nil, err
	}
	var ports [3]string
	for i := range ports {
		addr, err := freeAddr()
		if err != nil {
			return nil, err
		}
		ports[i] = portOf(addr)
	}
	return start(ctx, command{
		name: "ratelimit", core: serverCore, dir: s.dir, addr: "127.0.0.1:" + ports[1],
		env: []string{
			"GOMAXPROCS=1", "HOST=127.0.0.1", "GRPC_HOST=127.0.0.1", "DEBUG_HOST=127.0.0.1",
			"PORT=" + ports[0], "GRPC_PORT=" + ports[1], "DEBUG_PORT=" + ports[2],
			"RUNTIME_ROOT=" + filepath.Join(s.dir, "runtime"), "RUNTIME_SUBDIRECTORY=", "RUNTIME_APPDIRECTORY=config",
			"RUNTIME_WATCH_ROOT=false", "USE_STATSD=false", "LOG_LEVEL=error",
			"BACKEND_TYPE=redis", "REDIS_SOCKET_TYPE=tcp", "REDIS_URL=" + s.store,
			fmt.Sprintf("REDIS_POOL_SIZE=%d", rateLimitConnections),
		},
		args: []string{b.rateLimit},
	})
}

// rateLimitConnections is the service's own default.
const rateLimitConnections = 10
