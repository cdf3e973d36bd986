package streaming_test

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/llmgov/llmgov/streaming"
)

// A body passes a stream on as it comes, and reports its usage when it has ended.
func ExampleNewBody() {
	upstream := io.NopCloser(strings.NewReader(`data: {"choices":[{"index":0,"delta":{"content":"Hello"}}]}

data: {"choices":[{"index":0,"delta":{"content":" world"},"finish_reason":"stop"}]}

data: {"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":2}}

data: [DONE]

`))
	var result streaming.Result
	body := streaming.NewBody(upstream, streaming.Options{
		WithholdUsage: true, // the client did not ask for it
		End:           func(r streaming.Result) { result = r },
	})
	defer body.Close()

	if _, err := io.Copy(os.Stdout, body); err != nil { // os.Stdout stands for the client
		panic(err)
	}
	fmt.Println(result.Cause)
	fmt.Println("input:", result.Usage.Input)
	fmt.Println("output:", result.Usage.Output)
	// Output:
	// data: {"choices":[{"index":0,"delta":{"content":"Hello"}}]}
	//
	// data: {"choices":[{"index":0,"delta":{"content":" world"},"finish_reason":"stop"}]}
	//
	// data: [DONE]
	//
	// completed
	// input: 9
	// output: 2
}

// A stream that breaks off reports no usage. Its parts are counted, so that it can be charged by an estimate.
func ExampleNewBody_truncated() {
	upstream := io.NopCloser(strings.NewReader(`data: {"choices":[{"index":0,"delta":{"content":"Hello"}}]}

`))
	var result streaming.Result
	body := streaming.NewBody(upstream, streaming.Options{
		End: func(r streaming.Result) { result = r },
	})
	defer body.Close()

	if _, err := io.Copy(io.Discard, body); err != nil {
		panic(err)
	}
	fmt.Println(result.Cause)
	fmt.Println("usage reported:", result.Reported)
	fmt.Println("parts of the answer:", result.Deltas)
	// Output:
	// truncated
	// usage reported: false
	// parts of the answer: 1
}
