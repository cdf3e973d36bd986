package mock

import (
	"fmt"
	"net/http"
)

// Batch is how many calls run in a server that batches, how many streams it has interrupted, and the part of its memory in use.
func (s *Server) Batch() (running, interrupted int, used float64) { return s.batch.Load() }

// writeMetrics answers GET /metrics with the gauges of vLLM, by its names.
func (s *Server) writeMetrics(w http.ResponseWriter) {
	st := s.Stats()
	running := st.Running
	waiting := st.Queued
	used := 0.0
	if s.batch != nil {
		runs, waits, part := s.batch.Load()
		running = int64(runs)
		waiting += int64(waits)
		used = part
	}
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	for _, g := range []struct {
		name  string
		about string
		value float64
	}{
		{"vllm:num_requests_running", "Number of requests in model execution batches.", float64(running)},
		{"vllm:num_requests_waiting", "Number of requests waiting to be processed.", float64(waiting)},
		{"vllm:kv_cache_usage_perc", "KV-cache usage. 1 means 100 percent usage.", used},
	} {
		fmt.Fprintf(w, "# HELP %s %s\n# TYPE %s gauge\n%s{engine=\"0\",model_name=%q} %v\n", g.name, g.about, g.name, g.name, s.cfg.Models[0], g.value)
	}
}
