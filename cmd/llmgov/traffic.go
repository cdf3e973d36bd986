package main

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	openai "github.com/sashabaranov/go-openai"
)

// demand is one demo tenant's load.
type demand struct {
	tenant    string
	perSecond float64       // calls, Poisson
	on, off   time.Duration // bursts; always on if off is 0
	stream    bool
	maxTokens int
}

// demoDemands exceed the pool while pro's bursts last, so that shares, waits
// and refusals can be watched.
var demoDemands = []demand{
	{tenant: "enterprise", perSecond: 4, stream: true, maxTokens: 1200},
	{tenant: "pro", perSecond: 12, on: 20 * time.Second, off: 25 * time.Second, stream: true, maxTokens: 800},
	{tenant: "free", perSecond: 2, maxTokens: 400},
}

// traffic sends the calls of the demo tenants until ctx ends.
func traffic(ctx context.Context, base string, q *quickstart) {
	var wg sync.WaitGroup
	for _, d := range demoDemands {
		cfg := openai.DefaultConfig(q.keys[d.tenant])
		cfg.BaseURL = base + "/v1"
		client := openai.NewClientWithConfig(cfg)
		wg.Go(func() { d.run(ctx, client, q.model) })
	}
	wg.Wait()
}

func (d demand) run(ctx context.Context, client *openai.Client, model string) {
	var calls sync.WaitGroup
	defer calls.Wait()
	began := time.Now()
	for {
		gap := time.Duration(rand.ExpFloat64() / d.perSecond * float64(time.Second))
		if cycle := d.on + d.off; d.off > 0 {
			if at := time.Since(began) % cycle; at > d.on {
				gap = cycle - at
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(gap):
			calls.Go(func() { d.call(ctx, client, model) })
		}
	}
}

// call makes one call. Refusals are expected.
func (d demand) call(ctx context.Context, client *openai.Client, model string) {
	req := openai.ChatCompletionRequest{
		Model:    model,
		Messages: []openai.ChatCompletionMessage{{Role: openai.ChatMessageRoleUser, Content: "Tell me a story."}},
		Stream:   d.stream,

		MaxCompletionTokens: d.maxTokens/4 + rand.IntN(d.maxTokens),
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
