package testkit

import "os"

// LeanHTTP is lean_http as tests of whole gateways have it: true, unless the environment has LLMGOV_LEAN_HTTP=false. So the same tests run
// by net/http on both sides of the gateway: make test-nethttp.
func LeanHTTP() bool { return os.Getenv("LLMGOV_LEAN_HTTP") != "false" }
