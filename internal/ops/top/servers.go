package top

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/llmgov/llmgov/internal/ops/adminapi"
)

// mostServers is how many servers of a pool have a line of their own.
const mostServers = 3

// servers are the pool's upstreams whose servers tell their load: those first that cannot be read, then those with the most to do.
func servers(p *adminapi.Pool) []adminapi.Upstream {
	list := slices.Clone(p.Upstreams)
	list = slices.DeleteFunc(list, func(u adminapi.Upstream) bool { return u.Engine == nil })
	slices.SortStableFunc(list, func(a, b adminapi.Upstream) int {
		switch {
		case a.Engine.Fresh == b.Engine.Fresh:
			return cmp.Or(cmp.Compare(b.Engine.Waiting, a.Engine.Waiting), cmp.Compare(b.Engine.KVUse, a.Engine.KVUse))
		case a.Engine.Fresh:
			return 1
		}
		return -1
	})
	return list
}

// serverOf is the load of the pool's server that needs attention most, in at most nine characters.
func serverOf(p *adminapi.Pool) string {
	list := servers(p)
	switch {
	case len(list) == 0:
		return "-"
	case !list[0].Engine.Fresh:
		return "stale"
	case list[0].Engine.Waiting > 0:
		return short(list[0].Engine.Waiting) + " wait"
	case list[0].Engine.KVUse > 0:
		return "KV " + percent(list[0].Engine.KVUse)
	}
	return short(list[0].Engine.Running) + " run"
}

func serverTone(e *adminapi.Engine) tone {
	switch {
	case !e.Fresh:
		return bad
	case e.Waiting > 0:
		return warn
	}
	return plain
}

// serverLines are the loads of the pool's servers, as their own metrics tell them.
func serverLines(v *adminapi.Pool, p *pen) (lines []string) {
	list := servers(v)
	for i := range list[:min(len(list), mostServers)] {
		u := &list[i]
		lines = append(lines, p.st.paint(serverTone(u.Engine), clean("server "+u.Name+": "+loadOf(u.Engine))))
	}
	if rest := len(list) - mostServers; rest > 0 {
		lines = append(lines, fmt.Sprintf("and %d more with less to do", rest))
	}
	if v.Adaptive != nil && v.Adaptive.Room > 0 {
		lines = append(lines, "by their metrics, the servers have room for "+whole(v.Adaptive.Room)+" calls at once")
	}
	return lines
}

// loadOf is the load of one server. A server without a figure of its KV cache has a use of 0.
func loadOf(e *adminapi.Engine) string {
	if !e.Fresh {
		return "stale, its metrics are not read: " + e.Error
	}
	text := whole(e.Running) + " run, " + whole(e.Waiting) + " wait"
	if e.KVUse > 0 {
		text += ", KV cache " + percent(e.KVUse)
	}
	return text
}
