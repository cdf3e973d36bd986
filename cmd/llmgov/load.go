package main

import (
	"errors"
	"fmt"
	neturl "net/url"
	"os"
	"strings"
	"time"

	"github.com/llmgov/llmgov/internal/lab/distribution"
	"github.com/llmgov/llmgov/internal/lab/load"
	"github.com/llmgov/llmgov/internal/lib/strictyaml"
)

type loadCmd struct {
	URL     string `name:"url" default:"http://localhost:8080" placeholder:"URL" help:"The gateway or model server, with or without /v1. Default ${default}."`
	Key     string `placeholder:"KEY" help:"The API key of the one tenant."`
	Tenants string `placeholder:"FILE" help:"Tenants from a YAML file, instead of one by flags; see docs/load.md."`

	Rate     float64       `placeholder:"N" help:"Calls a second. Default 10."`
	For      time.Duration `default:"30s" placeholder:"DURATION" help:"How long to measure. Default ${default}."`
	Warmup   time.Duration `placeholder:"DURATION" help:"How long to send before that, unmeasured."`
	Arrivals string        `default:"poisson" enum:"poisson,constant" placeholder:"LAW" help:"poisson or constant. Default ${default}."`

	Path         string  `default:"chat" enum:"chat,responses,messages,embeddings" placeholder:"NAME" help:"chat, responses, messages or embeddings. Default ${default}."`
	Model        string  `default:"gpt-4o-mini" placeholder:"NAME" help:"Default ${default}."`
	PromptTokens float64 `placeholder:"N" help:"Length of each prompt in tokens, about. Default: lognormal, 500 in the mean."`
	OutputTokens float64 `placeholder:"N" help:"Length of each answer in tokens. Default: lognormal, 200 in the mean."`
	MaxTokens    int64   `placeholder:"N" help:"The max_tokens of each call. Default: the length that was drawn."`
	Stream       float64 `default:"1" placeholder:"P" help:"Share of calls that are streamed. Default ${default}."`
	Disconnect   float64 `placeholder:"P" help:"Share of streams to break off at a random point."`
	Retry        string  `default:"none" enum:"none,hinted,sdk" placeholder:"RULE" help:"Retries of refused callers: none, hinted (obey Retry-After) or sdk (as OpenAI's libraries). Default ${default}."`

	Timeout     time.Duration `default:"60s" placeholder:"DURATION" help:"The longest wait for an answer. Default ${default}."`
	MaxInFlight int           `default:"5000" placeholder:"N" help:"Concurrent calls; further ones are sent late, and measured from when they were due. Default ${default}."`
	Seed        uint64        `default:"1" placeholder:"N" help:"Seed of the times and lengths drawn. Default ${default}."`

	JSON   bool   `name:"json" help:"Print the figures as JSON instead of a table."`
	Output string `short:"o" placeholder:"FILE" help:"Write an HTML report, complete in one file."`
	FailOn string `placeholder:"LIST" help:"Exit with 1 if one of these holds, such as error>0,refused>5%,p99>2s,ttft.p99>1s,goodput<1000."`
}

func (loadCmd) Help() string {
	return `Sends calls at times drawn beforehand, whatever the outcome of earlier ones, and
measures each from the time it was due. Ctrl-C ends early, with a report.

Example: llmgov load --url http://localhost:8080 --key llmg_… --rate 50 --for 30s
         llmgov load --tenants tenants.yaml --for 5m -o report.html --fail-on 'error>0,p99>2s'`
}

func (c loadCmd) Run(e *env) error {
	limits, err := c.limits()
	if err != nil {
		return err
	}
	plan, err := c.plan(e)
	if err != nil {
		return err
	}
	opt := load.Options{URL: c.URL}
	bar := newBar(e.stderr, "sending")
	if bar != nil {
		opt.Progress = func(p load.Progress) {
			bar.Describe(fmt.Sprintf("%d sent, %d ok, %d refused, %d others, %d open", p.Sent, p.OK, p.Refused, p.Other, p.InFlight))
			_ = bar.Set(int(p.Part * barSteps))
		}
	}
	r := load.Run(e.ctx, plan, opt)
	if bar != nil {
		_ = bar.Clear()
	}
	if err := c.write(e, r); err != nil {
		return err
	}
	return errors.Join(c.broken(r, limits), c.unauthorized(r), c.unanswered(r))
}

// broken reports the limits of --fail-on that the run broke.
func (c loadCmd) broken(r *load.Report, limits []load.Limit) error {
	if broken := r.Broken(limits); len(broken) > 0 {
		return fmt.Errorf("llmgov: --fail-on: %s", strings.Join(broken, ", "))
	}
	return nil
}

// unauthorized reports wrong keys if every answer was 401.
func (c loadCmd) unauthorized(r *load.Report) error {
	if r.Unauthorized == 0 {
		return nil
	}
	return fmt.Errorf("llmgov: each of %d answers was 401: the server does not know the key; %s", r.Unauthorized, c.keyAdvice())
}

// unanswered reports that nobody is there.
func (c loadCmd) unanswered(r *load.Report) error {
	if r.Unanswered == 0 {
		return nil
	}
	return fmt.Errorf("llmgov: nothing answered at %s: all %d calls failed; start the server, or check --url", c.URL, r.Unanswered)
}

// keyAdvice names the place of the wrong key.
func (c loadCmd) keyAdvice() string {
	switch {
	case c.Tenants != "":
		return "check the keys in " + c.Tenants
	case c.Key == "":
		return "give one with --key"
	}
	return "check --key"
}

func (c loadCmd) limits() ([]load.Limit, error) {
	if c.FailOn == "" {
		return nil, nil
	}
	limits, err := load.ParseLimits(c.FailOn)
	if err != nil {
		return nil, &usageError{"--fail-on: " + err.Error()}
	}
	return limits, nil
}

// plan is the run that flags and file describe.
func (c loadCmd) plan(e *env) (*load.Plan, error) {
	if u, err := neturl.Parse(c.URL); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, &usageError{fmt.Sprintf("--url: %q is not a URL; write one such as http://localhost:8080", c.URL)}
	}
	if err := c.ranges(); err != nil {
		return nil, err
	}
	p := &load.Plan{For: c.For, Warmup: c.Warmup, Seed: c.Seed, Timeout: c.Timeout, MaxInFlight: c.MaxInFlight}
	like := c.tenant()
	if c.Tenants == "" {
		p.Tenants = []load.Tenant{like}
		return p, nil
	}
	if c.Rate > 0 || c.Key != "" {
		return nil, &usageError{"--tenants: the file has rates and keys of its own; remove --rate and --key"}
	}
	data, err := os.ReadFile(c.Tenants)
	if err != nil {
		return nil, fmt.Errorf("llmgov: --tenants: %w", err)
	}
	p.Tenants, err = load.Parse(strictyaml.File{Name: c.Tenants, Data: data, Expand: strictyaml.Expander(e.vars)}, like)
	return p, err
}

// ranges refuses numbers that are out of range.
func (c loadCmd) ranges() error {
	for _, f := range []struct {
		name         string
		value        float64
		least, most  float64
		zeroIsAbsent bool
	}{
		{"rate", c.Rate, 0.001, load.MaxRate, true},
		{"prompt-tokens", c.PromptTokens, 1, load.MaxTokens, true},
		{"output-tokens", c.OutputTokens, 1, load.MaxTokens, true},
		{"max-tokens", float64(c.MaxTokens), 1, load.MaxTokens, true},
		{"stream", c.Stream, 0, 1, false},
		{"disconnect", c.Disconnect, 0, 1, false},
		{"max-in-flight", float64(c.MaxInFlight), 1, 1e6, false},
		{"for (in seconds)", c.For.Seconds(), 0.1, load.Longest.Seconds(), false},
		{"warmup (in seconds)", c.Warmup.Seconds(), 0, load.Longest.Seconds(), false},
		{"timeout (in seconds)", c.Timeout.Seconds(), 0.001, 3600, false},
	} {
		if (f.value < f.least || f.value > f.most) && !(f.zeroIsAbsent && f.value == 0) {
			return &usageError{fmt.Sprintf("--%s: %g is out of range; write %g to %g", f.name, f.value, f.least, f.most)}
		}
	}
	return nil
}

// tenant is the one that flags describe, or the default for those of a file.
func (c loadCmd) tenant() load.Tenant {
	t := load.DefaultTenant()
	t.Key = c.Key
	t.Model = c.Model
	t.Stream = c.Stream
	t.Disconnect = c.Disconnect
	t.MaxTokens = c.MaxTokens
	t.Arrivals = load.ArrivalWords[c.Arrivals]
	t.Path = load.PathWords[c.Path]
	t.Retry = load.RetryWords[c.Retry]
	if c.Rate > 0 {
		t.Rate = c.Rate
	}
	if c.PromptTokens > 0 {
		t.Prompt = distribution.Constant(c.PromptTokens)
	}
	if c.OutputTokens > 0 {
		t.Output = distribution.Constant(c.OutputTokens)
	}
	return t
}

func (c loadCmd) write(e *env, r *load.Report) error {
	show := r.WriteTable
	if c.JSON {
		show = r.WriteJSON
	}
	err := show(e.stdout)
	if c.Output == "" {
		return err
	}
	err = errors.Join(err, writeFile(c.Output, r.WriteHTML))
	if err == nil {
		fmt.Fprintf(e.stderr, "The report is in %s\n", c.Output)
	}
	return err
}
