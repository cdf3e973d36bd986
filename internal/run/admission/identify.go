package admission

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/llmgov/llmgov/internal/run/admission/ask"
	"github.com/llmgov/llmgov/internal/run/identity"
	"github.com/llmgov/llmgov/tenants"
)

// Identify finds the tenant by its key. hint tells callers without a key where to put it.
func (c *Call) Identify(key, hint string) *ask.Refusal {
	if key == "" {
		return &ask.Refusal{Status: statusUnauthorized, Code: ask.CodeKey, Message: strings.TrimSpace("No API key was given. " + hint)}
	}
	t, k, ok := c.Policy.Snapshot.Lookup(key)
	if !ok {
		return c.identifyToken(key)
	}
	if k.Expired(c.Began) {
		return &ask.Refusal{Status: statusUnauthorized, Code: ask.CodeKey, Message: "The API key expired at " + k.Expires.UTC().Format(time.RFC3339) + "."}
	}
	c.ctl.MarkUsed(k.Hash, c.Began)
	c.Key = k
	c.identified(t)
	return nil
}

// identifyToken finds the tenant of a token of an identity provider. What is wrong with one is for the log: it would tell a stranger how to make another.
func (c *Call) identifyToken(token string) *ask.Refusal {
	t, k, err := c.Policy.identity.Who(context.Background(), c.Policy.Snapshot, token)
	switch {
	case err == nil:
		c.Key = k
		c.identified(t)
		if t.Members != nil && t.Members.By.Claim() != "" {
			c.claim = identity.Claim(token, t.Members.By.Claim())
		}
		return nil
	case errors.Is(err, identity.ErrNoToken):
		return &ask.Refusal{Status: statusUnauthorized, Code: ask.CodeKey, Message: "The API key is not known here."}
	case errors.Is(err, identity.ErrExpired):
		return &ask.Refusal{Status: statusUnauthorized, Code: ask.CodeKey, Message: "The token has expired. Get another one from whoever issued it."}
	}
	c.ctl.tokenRefused(err)
	return &ask.Refusal{Status: statusUnauthorized, Code: ask.CodeKey, Message: "The token is not accepted here. The gateway's log says why."}
}

// IdentifyTenant takes the name of the tenant from somebody who is trusted to know it, such as another
// gateway or the program itself.
func (c *Call) IdentifyTenant(name string) *ask.Refusal {
	t, ok := c.Policy.Snapshot.TenantByName(name)
	if !ok {
		return &ask.Refusal{Status: statusUnauthorized, Code: ask.CodeKey, Message: "There is no tenant " + quoted(name) + "."}
	}
	c.identified(t)
	return nil
}

// Whose finds the tenant of a key, which may have expired, or of a token. Of a text that is neither, the error is identity.ErrNoToken.
func (p *Policy) Whose(key string) (*tenants.Tenant, *tenants.Key, error) {
	if t, k, ok := p.Snapshot.Lookup(key); ok {
		return t, k, nil
	}
	return p.identity.Who(context.Background(), p.Snapshot, key)
}

// Groups returns the subject of a token of an identity provider, its issuer and its groups; "" if it is not valid.
func (c *Controller) Groups(token string) (subject, issuer string, groups []string) {
	subject, issuer, groups, err := c.Policy().identity.Groups(context.Background(), token)
	if err != nil && !errors.Is(err, identity.ErrNoToken) {
		c.tokenRefused(err)
	}
	return subject, issuer, groups
}

// TenantOf finds the tenant of a key, or of a token, that has not expired.
func (c *Controller) TenantOf(key string) (name string, ok bool) {
	t, k, err := c.Policy().Whose(key)
	if err != nil {
		if !errors.Is(err, identity.ErrNoToken) {
			c.tokenRefused(err)
		}
		return "", false
	}
	return t.Name, !k.Expired(time.Now())
}
