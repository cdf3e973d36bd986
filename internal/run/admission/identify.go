package admission

import (
	"strings"
	"time"
)

// Identify finds the tenant by its key. hint tells callers without a key where to put it.
func (c *Call) Identify(key, hint string) *Refusal {
	if key == "" {
		return &Refusal{Status: statusUnauthorized, Code: CodeKey, Message: strings.TrimSpace("No API key was given. " + hint)}
	}
	t, k, ok := c.Policy.Snapshot.Lookup(key)
	if !ok {
		return &Refusal{Status: statusUnauthorized, Code: CodeKey, Message: "The API key is not known here."}
	}
	if k.Expired(c.Began) {
		return &Refusal{Status: statusUnauthorized, Code: CodeKey, Message: "The API key expired at " + k.Expires.UTC().Format(time.RFC3339) + "."}
	}
	c.ctl.MarkUsed(k.Hash, c.Began)
	c.Key = k
	c.identified(t)
	return nil
}

// IdentifyTenant takes the name of the tenant from somebody who is trusted to know it, such as another
// gateway or the program itself.
func (c *Call) IdentifyTenant(name string) *Refusal {
	t, ok := c.Policy.Snapshot.TenantByName(name)
	if !ok {
		return &Refusal{Status: statusUnauthorized, Code: CodeKey, Message: "There is no tenant " + quoted(name) + "."}
	}
	c.identified(t)
	return nil
}

// TenantOf finds the tenant of a key that has not expired.
func (c *Controller) TenantOf(key string) (name string, ok bool) {
	t, k, ok := c.Policy().Snapshot.Lookup(key)
	if !ok || k.Expired(time.Now()) {
		return "", false
	}
	return t.Name, true
}
