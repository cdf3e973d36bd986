package govhttp_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"

	"github.com/llmgov/llmgov/governor/govhttp"
	"github.com/llmgov/llmgov/streaming"
)

// A reverse proxy of one's own meters what its clients use, streams included. The client of this one did not ask for the usage, and does not
// see it.
func ExampleAskForUsage() {
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hello\"},\"finish_reason\":\"stop\"}]}\n\n")
		if strings.Contains(string(asked), `"include_usage":true`) {
			fmt.Fprint(w, "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":1}}\n\n")
		}
		fmt.Fprint(w, "data: [DONE]\n\n")
	}))
	defer model.Close()
	target, _ := url.Parse(model.URL)

	used := make(chan streaming.Result, 1)
	proxy := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			if out, err := govhttp.AskForUsage(r.Out); err == nil {
				r.Out = out
			}
		},
		ModifyResponse: streaming.Handler(func(_ *http.Response, r streaming.Result) { used <- r }),
	})
	defer proxy.Close()

	resp, err := http.Post(proxy.URL+"/v1/chat/completions", "application/json",
		strings.NewReader(`{"model":"gpt-4o","stream":true,"messages":[{"role":"user","content":"Say hello"}]}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	answer, _ := io.ReadAll(resp.Body)
	fmt.Println("the client sees usage:", strings.Contains(string(answer), "usage"))
	r := <-used
	fmt.Println(r.Cause, r.Usage.Input, r.Usage.Output)
	// Output:
	// the client sees usage: false
	// completed 9 1
}
