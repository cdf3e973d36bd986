package embedded_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/governor/client"
	"github.com/llmgov/llmgov/governor/embedded"
)

// A governor runs in virtual time: a test of a day takes milliseconds. It is opened and closed in the bubble.
func TestExample_ADayInVirtualTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		governed, err := embedded.New(t.Context(), embedded.Policy{
			Pools:   []embedded.Pool{{Name: "gpt-4o", TPM: 300_000}},
			Tenants: []embedded.Tenant{{Name: "acme", RPM: 1, MaxWait: 2 * time.Minute}},
		}, embedded.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer governed.Close()

		began := time.Now()
		for range 24 * 60 {
			err := governed.Do(t.Context(), client.Request{Tenant: "acme", Model: "gpt-4o", InputTokens: 900, MaxOutput: 300},
				func(context.Context, *client.Lease) (client.Usage, error) {
					return client.Usage{Input: 880, Output: 120}, nil
				})
			if err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(began); took < 24*time.Hour || took > 25*time.Hour {
			t.Errorf("1,440 calls at one a minute took %v", took)
		}
	})
}
