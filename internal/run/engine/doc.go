// Package engine reads the load of model servers from the metrics that they export for Prometheus:
//
//	server's /metrics ──► Read ──► Signals ──► Watcher ──► Load of a pool's servers ──► the pool's adaptive limit
//
// A server that batches continuously takes every call at once and slows all streams down, so the time to the first token does
// not tell when it is full. Its own gauges do: how many calls run and wait in it, and how much of its memory for contexts (the
// KV cache) is in use.
//
// # Rules
//
//   - A call never waits for a server's metrics. They are read once a second, beside the calls.
//   - A server that cannot be read is asked less and less often. What it said last is forgotten after some seconds: then there is
//     only latency to go by, as without this package.
//   - The upstream's key is sent only if the config says so.
package engine
