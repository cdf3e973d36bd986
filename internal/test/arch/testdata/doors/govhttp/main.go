// A program that governs its HTTP calls by a governor that it is told of.
package main

import (
	"net/http"

	"github.com/llmgov/llmgov/governor/client"
	"github.com/llmgov/llmgov/governor/govhttp"
)

func main() {
	var governed *client.Client // of embedded or remote
	sdk := &http.Client{Transport: govhttp.Transport(governed, nil, govhttp.Options{Caller: govhttp.Tenant("acme")})}
	_, _ = sdk.Get("http://localhost")
}
