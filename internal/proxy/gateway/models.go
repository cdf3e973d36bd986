package gateway

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/llmgov/llmgov/internal/proxy/gateway/dialect"
	"github.com/llmgov/llmgov/internal/proxy/gateway/upstream"
	"github.com/llmgov/llmgov/internal/run/admission/ask"
)

type modelObject struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	OwnedBy string `json:"owned_by"`
	*anthropicModel
}

// anthropicModel is the rest of Anthropic's object.
type anthropicModel struct {
	Type        string    `json:"type"`
	DisplayName string    `json:"display_name"`
	CreatedAt   time.Time `json:"created_at"`
}

// model is a model in the shape that the caller reads.
func (c *call) model(id, pool string) modelObject {
	m := modelObject{ID: id, Object: "model", OwnedBy: pool}
	if c.dialect() == dialect.Anthropic {
		m.anthropicModel = &anthropicModel{"model", id, time.Unix(0, 0).UTC()}
	}
	return m
}

// serveModels answers GET /v1/models and /v1/models/{id} from the policy: what this tenant may use,
// and which pool serves it. For pools with patterns, the list has the names that their upstreams
// list. A single name is not looked up there, since providers accept more names than they list.
func (c *call) serveModels() {
	c.showStanding()
	id := strings.Trim(c.r.URL.Path[strings.Index(c.r.URL.Path, "/models")+len("/models"):], "/")
	if id != "" {
		p, ok := c.world.Snapshot.PoolOf(id)
		if !ok || !c.Tenant.MayUse(id) {
			c.refuse(&refusal{Status: http.StatusNotFound, Code: ask.CodeNoModel, Param: "model", Message: "There is no model " + strconv.Quote(id) + " for tenant " + c.Tenant.Name + "."})
			return
		}
		c.writeJSON(c.model(id, p.Name))
		return
	}
	pools := c.listed() // by model
	data := []modelObject{}
	for _, name := range slices.Sorted(maps.Keys(pools)) {
		data = append(data, c.model(name, pools[name]))
	}
	list := map[string]any{"object": "list", "data": data}
	if c.dialect() == dialect.Anthropic {
		list["has_more"] = false
		list["first_id"] = nil
		list["last_id"] = nil
		if len(data) > 0 {
			list["first_id"] = data[0].ID
			list["last_id"] = data[len(data)-1].ID
		}
	}
	c.writeJSON(list)
}

// listed maps models that have a name to the pools that serve them: models of the policy, and those
// that upstreams list for patterns of pools.
func (c *call) listed() map[string]string {
	pools := map[string]string{}
	for _, m := range c.world.Snapshot.ModelsFor(c.Tenant) {
		pools[m.Name] = m.Pool
	}
	open := c.patterned()
	c.lookUp(open)
	for _, p := range open {
		for _, u := range p.upstreams {
			if !c.Tenant.MayReach(u.Name) {
				continue
			}
			for _, name := range u.Models() {
				if c.lists(p, u, name) {
					pools[name] = p.Name
				}
			}
		}
	}
	return pools
}

// patterned are the pools with patterns that the tenant may use.
func (c *call) patterned() (open []*poolSide) {
	for i, p := range c.world.pools {
		if c.world.Reaches(c.Tenant.Index, i) && slices.ContainsFunc(p.Models, func(m string) bool { return strings.Contains(m, "*") }) {
			open = append(open, p)
		}
	}
	return open
}

// lookUp asks the upstreams of pools for their models, all at the same time, and waits a little for
// those that were never heard.
func (c *call) lookUp(open []*poolSide) {
	ctx, cancel := context.WithTimeout(c.r.Context(), upstream.Patience)
	defer cancel()
	var waits []<-chan struct{}
	for _, p := range open {
		for _, u := range p.upstreams {
			if u.Provider.Lists {
				waits = append(waits, u.LookUp(c.g.transport))
			}
		}
	}
	for _, there := range waits {
		if there == nil {
			continue
		}
		select {
		case <-there:
		case <-ctx.Done():
			return
		}
	}
}

// lists reports whether a model of one of a pool's upstreams is listed as the pool's. A tuned model
// is listed only for the tenant that had it tuned, although a provider lists everybody's.
func (c *call) lists(p *poolSide, u *upstream.Upstream, name string) bool {
	serving, ok := c.world.Snapshot.PoolOf(name)
	if !ok || serving.Index != p.Index || !c.Tenant.MayUse(name) {
		return false
	}
	return !strings.HasPrefix(name, "ft:") || c.sees(u.Name, name)
}

func (c *call) writeJSON(v any) {
	c.w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(c.w).Encode(v)
}
