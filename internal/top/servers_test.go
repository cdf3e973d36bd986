package top

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/llmgov/llmgov/internal/adminapi"
)

// TestServers: of the servers behind a pool those are told of first that cannot be read, then those with the most to do; a list of pools
// tells of the first.
func TestServers(t *testing.T) {
	stale := adminapi.Upstream{Name: "stale", Engine: &adminapi.Engine{Running: 7, Waiting: 9, Error: "no answer\x1b[2J"}}
	full := adminapi.Upstream{Name: "full", Engine: &adminapi.Engine{Running: 1200, Waiting: 3, KVUse: 0.99, Fresh: true}}
	busy := adminapi.Upstream{Name: "busy", Engine: &adminapi.Engine{Running: 8, KVUse: 0.4, Fresh: true}}
	mute := adminapi.Upstream{Name: "mute", Engine: &adminapi.Engine{Running: 2, Fresh: true}}
	none := adminapi.Upstream{Name: "none"}
	for _, c := range []struct {
		list  []adminapi.Upstream
		brief string
		lines []string
	}{
		{[]adminapi.Upstream{none}, "-", nil},
		{[]adminapi.Upstream{mute}, "2 run", []string{"server mute: 2 run, 0 wait"}},
		{[]adminapi.Upstream{none, mute, busy}, "KV 40%", []string{"server busy: 8 run, 0 wait, KV cache 40%", "server mute: 2 run, 0 wait"}},
		{[]adminapi.Upstream{mute, busy, full, stale}, "stale", []string{
			"server stale: stale, its metrics are not read: no answer?[2J", "server full: 1,200 run, 3 wait, KV cache 99%",
			"server busy: 8 run, 0 wait, KV cache 40%", "and 1 more with less to do",
		}},
		{[]adminapi.Upstream{full, busy}, "3 wait", []string{"server full: 1,200 run, 3 wait, KV cache 99%", "server busy: 8 run, 0 wait, KV cache 40%"}},
	} {
		p := &adminapi.Pool{Upstreams: slices.Clone(c.list)}
		if got := serverOf(p); got != c.brief {
			t.Errorf("in a list it is %q, want %q", got, c.brief)
		}
		if diff := cmp.Diff(c.lines, serverLines(p, &pen{width: 80})); diff != "" {
			t.Errorf("lines (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(c.list, p.Upstreams); diff != "" {
			t.Errorf("the upstreams were changed:\n%s", diff)
		}
	}
}
