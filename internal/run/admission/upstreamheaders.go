package admission

import "strings"

// UpstreamHeaders calls set for each header that the pool's upstreams get beside the call's own.
func (c *Call) UpstreamHeaders(set func(name, value string)) {
	if len(c.Pool.Headers) == 0 {
		return
	}
	priority := "interactive"
	if c.Ask.Background || c.Tenant.Background {
		priority = "background"
	}
	of := strings.NewReplacer("{tenant}", c.Tenant.Name, "{tier}", c.Tenant.Tier, "{priority}", priority, "{request_id}", c.ID)
	for _, h := range c.Pool.Headers {
		set(h.Name, of.Replace(h.Value))
	}
}
