package gateway

import (
	"encoding/json"
	"net/http"
	"strings"
)

type modelObject struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	OwnedBy string `json:"owned_by"`
}

// serveModels answers GET /v1/models and /v1/models/{id} from the policy: what
// this tenant may use, and which pool serves it.
func (c *call) serveModels() {
	c.showStanding()
	id := strings.TrimPrefix(c.r.URL.Path[strings.Index(c.r.URL.Path, "/models")+len("/models"):], "/")
	if id != "" {
		p, ok := c.world.snap.PoolOf(id)
		if !ok || !c.tenant.MayUse(id) {
			c.refuse(&refusal{status: http.StatusNotFound, code: codeNoModel, param: "model", message: "There is no model " + quoted(id) + " for tenant " + c.tenant.Name + "."})
			return
		}
		c.writeJSON(modelObject{ID: id, Object: "model", OwnedBy: p.Name})
		return
	}
	data := []modelObject{}
	for _, m := range c.world.snap.ModelsFor(c.tenant) {
		data = append(data, modelObject{ID: m.Name, Object: "model", OwnedBy: m.Pool})
	}
	c.writeJSON(map[string]any{"object": "list", "data": data})
}

func (c *call) writeJSON(v any) {
	c.w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(&c.w).Encode(v)
}
