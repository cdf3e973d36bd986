package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/llmgov/llmgov/internal/lab/mock"
	"github.com/llmgov/llmgov/tenants"
)

type mockCmd struct {
	Listen          string        `default:"127.0.0.1:8090" placeholder:"ADDR" help:"The address to listen on. Port 0 picks a free one. Default ${default}."`
	Model           []string      `placeholder:"NAME" help:"A model to list at /v1/models; others are served as well."`
	APIKey          string        `placeholder:"KEY" help:"Require this key."`
	FirstToken      time.Duration `placeholder:"DURATION" help:"Time to the first token once a call has a slot."`
	TokensPerSecond float64       `placeholder:"N" help:"Speed of one stream. Default: at once."`
	PrefixCache     int64         `placeholder:"TOKENS" help:"Cache this many tokens of prompts' beginnings, and report hits in the usage. Default: none."`
	Slots           int           `placeholder:"N" help:"Concurrent calls; further ones wait silently. Default: no limit."`
	Batch           int           `placeholder:"N" help:"Batch continuously: with N calls at once each is half as fast as alone."`
	KVCache         int64         `placeholder:"TOKENS" help:"Memory for the contexts of all calls; beyond it, the streams that came last are interrupted."`
	OutputTokens    int           `placeholder:"N" help:"Length of an answer to a call that does not bound it; all others are as long as their bound, such as max_tokens. Default 32."`
	MostOutput      int           `placeholder:"N" help:"The longest answer, whatever a call's bound. Default: its bound."`
	TPM             int64         `name:"tpm" placeholder:"N" help:"Limit on tokens in a rolling minute; 429 beyond."`
	RPM             int64         `name:"rpm" placeholder:"N" help:"Limit on requests in a rolling minute; 429 beyond."`
	ITPM            int64         `name:"itpm" placeholder:"N" help:"Limit on input tokens in a rolling minute, without cached ones; 429 beyond."`
	OTPM            int64         `name:"otpm" placeholder:"N" help:"Limit on output tokens in a rolling minute, as they are produced; 429 beyond."`
	Accounting      string        `placeholder:"RULE" help:"How tokens count against tpm: admit_max, production, settle or bedrock (as admit_max, but what is produced counts fivefold, and cached input not). Default admit_max."`
	Minute          string        `placeholder:"WAY" help:"How the minute of the limits counts: rolling, fixed (all is free again after each whole minute), bucket (filled at the limit's rate), azure (fixed, but a sixth of rpm in each 10 s) or azure_1s. Default rolling."`
	ErrorRate       float64       `placeholder:"P" help:"Share of calls answered with a 500."`
	HangupRate      float64       `placeholder:"P" help:"Share of calls cut off in mid-answer."`
	SlowRate        float64       `placeholder:"P" help:"Share of calls with slow chunks."`
	SlowChunk       time.Duration `placeholder:"DURATION" help:"Pause before a chunk of a slow call."`
	Usage           string        `placeholder:"WHERE" help:"The part of a stream that reports usage: chunk, finish, each or absent. Default chunk."`
	Seed            uint64        `placeholder:"N" help:"Seed of the errors drawn."`
}

func (mockCmd) Help() string {
	return `Example: llmgov mock --first-token 200ms --tokens-per-second 60 --slots 8 --tpm 100000`
}

func (m mockCmd) Run(e *env) error {
	s, err := mock.New(mock.Config{
		Models: m.Model, APIKey: m.APIKey, FirstToken: m.FirstToken, TokensPerSecond: m.TokensPerSecond,
		PrefixCache: m.PrefixCache,
		Slots:       m.Slots, Batch: m.Batch, KVCache: m.KVCache, OutputTokens: m.OutputTokens, MostOutput: m.MostOutput, TPM: m.TPM, RPM: m.RPM, ITPM: m.ITPM, OTPM: m.OTPM, Accounting: m.Accounting, Minute: m.Minute,
		ErrorRate: m.ErrorRate, HangupRate: m.HangupRate, SlowRate: m.SlowRate, SlowChunk: m.SlowChunk,
		Usage: m.Usage, Seed: m.Seed,
	})
	if err != nil {
		return &usageError{err.Error()}
	}
	flags := tenants.Options{Flags: map[string]string{"listen": m.Listen}} // the syntax is that of serve
	if _, err := tenants.Overlay(tenants.DefaultConfig(), flags); err != nil {
		return err
	}
	l, err := listen(m.Listen, "--listen")
	if err != nil {
		return err
	}
	server := newServer(s, slog.New(logFormat(e)(e.stderr)), 10*time.Second)
	context.AfterFunc(e.ctx, func() { _ = server.Close() })
	fmt.Fprintf(e.stdout, "The simulated model server listens on %s/v1, counters at %s/_stats\n", url(l, nil), url(l, nil))
	return ignoreClosed(server.Serve(l))
}

var _ http.Handler = (*mock.Server)(nil)
