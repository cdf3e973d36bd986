package doors_test

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/llmgov/llmgov/governor/client"
	"github.com/llmgov/llmgov/governor/client/doors"
)

// twoADay is a Door for tests: it admits two calls, and refuses others.
type twoADay struct{ calls int }

func (d *twoADay) Reserve(_ context.Context, req client.Request) (doors.Held, error) {
	d.calls++
	if d.calls > 2 {
		return nil, &client.Refusal{Status: http.StatusTooManyRequests, Code: client.CodeRate, Message: "Two are enough.", RetryAfter: time.Minute}
	}
	return held{client.Grant{Tenant: req.Tenant, Pool: "gpt-4o"}}, nil
}

func (d *twoADay) Shutdown(context.Context) error { return nil }

// held is what one of its leases holds.
type held struct{ grant client.Grant }

func (h held) Grant() client.Grant           { return h.grant }
func (h held) Progress(client.Produced)      {}
func (h held) End(e client.End)              { fmt.Println("ended with", e.Usage.Output, "tokens") }
func (h held) EndBy(context.CancelCauseFunc) {}
func (h held) Show(http.Header)              {}

// Code that takes a Client is tested without a governor, by a Door of a few lines.
func ExampleOpen() {
	governed := doors.Open(&twoADay{}, doors.Options{})
	defer governed.Close()

	for range 3 {
		err := governed.Do(context.Background(), client.Request{Tenant: "acme", Model: "gpt-4o"},
			func(context.Context, *client.Lease) (client.Usage, error) {
				return client.Usage{Input: 9, Output: 2}, nil
			})
		if err != nil {
			fmt.Println(err)
		}
	}
	// Output:
	// ended with 2 tokens
	// ended with 2 tokens
	// llmgov: Two are enough.
}
