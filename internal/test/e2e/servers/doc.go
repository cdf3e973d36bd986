// Package servers runs llmgov in front of real model servers, with tiny models of random weights:
//
//	callers ─► llmgov, a process ─► llama.cpp's server, vLLM ─► /metrics
//
// Each case holds what callers got and llmgov charged against the server's own metrics. A server is a value in
// a file of its own, listed in servers_test.go, and says what it answers where servers differ. The table of
// docs/upstreams.md is made of them: go test ./internal/test/e2e/servers -update writes it. The servers are
// installed by make test-servers; elsewhere their tests are skipped.
package servers
