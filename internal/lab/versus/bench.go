package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
)

// bench has what the cases share: programs, a folder, and the report.
type bench struct {
	llmgov    string // the programs
	envoy     string
	liteLLM   string
	rateLimit string

	dir    string
	rounds int
	hog    int
	chosen []*contestant
	report *report
	commit string // of llmgov
}

func newBench(ctx context.Context, o options) (*bench, error) {
	b := &bench{
		llmgov: os.Getenv("LLMGOV"), envoy: os.Getenv("ENVOY"), liteLLM: os.Getenv("LITELLM"), rateLimit: os.Getenv("RATELIMIT"),
		rounds: o.rounds, hog: o.hog,
	}
	if b.llmgov == "" || b.envoy == "" || b.liteLLM == "" || b.rateLimit == "" {
		return nil, errors.New("set LLMGOV, ENVOY, LITELLM and RATELIMIT to the programs, or run make versus")
	}
	for _, c := range contestants {
		if chosen(o.names, c.name) {
			b.chosen = append(b.chosen, c)
		}
	}
	if b.chosen == nil {
		return nil, fmt.Errorf("-gateways: none begins with %q", o.names)
	}
	if err := keepToLoadCores(); err != nil {
		return nil, err
	}
	versions, err := b.versions(ctx)
	if err != nil {
		return nil, err
	}
	commit, err := said(ctx, "git", "rev-parse", "--short=8", "HEAD")
	if err != nil {
		return nil, err
	}
	b.commit = strings.TrimSpace(commit)
	b.report = newReport(b.chosen, versions)
	b.dir, err = os.MkdirTemp("", "versus")
	return b, err
}

func (b *bench) close() { _ = os.RemoveAll(b.dir) }

var number = regexp.MustCompile(`\d+\.\d+\.\d+`)

// versions asks the programs for theirs.
func (b *bench) versions(ctx context.Context) (map[string]string, error) {
	envoy, err := said(ctx, b.envoy, "--version")
	if err != nil {
		return nil, err
	}
	python := filepath.Join(filepath.Dir(b.liteLLM), "python")
	proxy, err := said(ctx, python, "-c", "from importlib.metadata import version; print(version('litellm'))")
	if err != nil {
		return nil, err
	}
	redis, err := said(ctx, "redis-server", "--version")
	if err != nil {
		return nil, err
	}
	service := "ratelimit " + cmp.Or(os.Getenv("RATELIMIT_VERSION"), "of an unknown version")
	store := "Redis " + number.FindString(redis)
	return map[string]string{
		bare.name:        runtime.Version(),
		envoyLocal.name:  number.FindString(envoy),
		envoyGlobal.name: fmt.Sprintf("%s, %s, %s", number.FindString(envoy), service, store),
		liteLLM.name:     fmt.Sprintf("%s, %s", strings.TrimSpace(proxy), store),
		alone.name:       "this repository",
		shared.name:      "this repository, " + store,
	}, nil
}

func said(ctx context.Context, program string, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, program, args...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", program, err, out)
	}
	return string(out), nil
}
