package main

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	openai "github.com/sashabaranov/go-openai"
)

// act is a part of the demo.
type act struct {
	caption string
	lasts   time.Duration
	demands []demand
}

// demand is one demo tenant's load.
type demand struct {
	tenant    string
	perSecond float64 // calls, Poisson
	prompt    int     // tokens
	stream    bool
}

// The demands of acts. The pool has 10,000 tokens a second, and nearly all of a call is its prompt: so the demo needs little
// of the machine.
var (
	quietFree       = demand{tenant: "free", perSecond: 0.8, prompt: 300}
	quietPro        = demand{tenant: "pro", perSecond: 0.5, prompt: 2000, stream: true}
	quietEnterprise = demand{tenant: "enterprise", perSecond: 1, prompt: 1500, stream: true}
	floodPro        = demand{tenant: "pro", perSecond: 6, prompt: 2500, stream: true}
	heavyEnterprise = demand{tenant: "enterprise", perSecond: 1.9, prompt: 2000, stream: true}
)

const meanOutput = 200 // tokens

// acts show the point of the product, one after the other and then from the beginning.
var acts = []act{
	{"Act 1 of 3: a quiet minute. Everybody has room, and nobody waits.", 25 * time.Second, []demand{quietFree, quietPro, quietEnterprise}},
	{"Act 2 of 3: pro floods the pool with batch work. It gets all that the others leave, and no more.", 40 * time.Second, []demand{quietFree, floodPro, quietEnterprise}},
	{"Act 3 of 3: enterprise comes back while pro still floods. It asks for less than its share, so its calls go first. Pro gets the rest, and waits.", 40 * time.Second, []demand{quietFree, floodPro, heavyEnterprise}},
}

// demo is the load of the demo tenants.
type demo struct {
	caption atomic.Pointer[string]
	from    *quickstart
}

// now is the caption of the act that is played; "" before the first.
func (d *demo) now() string {
	if d == nil {
		return ""
	}
	if text := d.caption.Load(); text != nil {
		return *text
	}
	return ""
}

// play plays the acts in a loop until ctx ends.
func (d *demo) play(ctx context.Context, base string) {
	clients := map[string]*openai.Client{}
	for tenant, key := range d.from.keys {
		cfg := openai.DefaultConfig(key)
		cfg.BaseURL = base + "/v1"
		clients[tenant] = openai.NewClientWithConfig(cfg)
	}
	var calls sync.WaitGroup
	defer calls.Wait()
	for i := 0; ctx.Err() == nil; i++ {
		a := &acts[i%len(acts)]
		d.caption.Store(&a.caption)
		lasts, end := context.WithTimeout(ctx, a.lasts)
		var demands sync.WaitGroup
		for _, one := range a.demands {
			demands.Go(func() {
				one.ask(lasts, func() { calls.Go(func() { one.call(ctx, clients[one.tenant], d.from.model) }) })
			})
		}
		demands.Wait()
		end()
	}
}

// ask begins calls until ctx ends.
func (d demand) ask(ctx context.Context, begin func()) {
	for {
		gap := time.Duration(rand.ExpFloat64() / d.perSecond * float64(time.Second))
		select {
		case <-ctx.Done():
			return
		case <-time.After(gap):
			begin()
		}
	}
}

// call makes one call. Refusals are expected.
func (d demand) call(ctx context.Context, client *openai.Client, model string) {
	req := openai.ChatCompletionRequest{
		Model:    model,
		Messages: []openai.ChatCompletionMessage{{Role: openai.ChatMessageRoleUser, Content: prompt(d.prompt/2 + rand.IntN(d.prompt))}},
		Stream:   d.stream,

		MaxCompletionTokens: meanOutput/2 + rand.IntN(meanOutput),
	}
	if !d.stream {
		_, _ = client.CreateChatCompletion(ctx, req)
		return
	}
	stream, err := client.CreateChatCompletionStream(ctx, req)
	if err != nil {
		return
	}
	defer stream.Close()
	for err == nil {
		_, err = stream.Recv()
	}
}

// prompt is a text of so many tokens, as the simulated model server counts them.
func prompt(tokens int) string { return strings.Repeat("Ahoy", tokens) }
