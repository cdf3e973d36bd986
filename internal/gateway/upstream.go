package gateway

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/llmgov/llmgov/internal/admission"
	"github.com/llmgov/llmgov/internal/answers"
	"github.com/llmgov/llmgov/internal/gateway/dialect"
	"github.com/llmgov/llmgov/internal/gateway/route"
	"github.com/llmgov/llmgov/internal/objects"
	"github.com/llmgov/llmgov/internal/upstreams"
	"github.com/llmgov/llmgov/tenants"
)

// upstream is a provider to which calls go.
type upstream struct {
	name     string
	provider *dialect.Provider
	address  dialect.Address
	key      []string        // the header by which the gateway authenticates there; nil without a key
	secrets  answers.Secrets // that key, as it must not come back
	shelf    *shelf          // the models that it lists
}

// identity is the same for the same upstream in the policies before and after a reload, even under
// another name.
func (u *upstream) identity() string {
	return fmt.Sprint(u.provider.Kind, u.address.String(), u.key)
}

// newUpstreams resolves the upstreams of a configuration, by name.
func newUpstreams(list []tenants.Upstream) (map[string]*upstream, error) {
	byName := map[string]*upstream{}
	for _, u := range list {
		provider := dialect.ProviderOf(u.Kind)
		address, err := provider.Address(u.BaseURL)
		if err != nil {
			return nil, fmt.Errorf("gateway: upstream %s: %w", u.Name, err)
		}
		up := &upstream{name: u.Name, provider: provider, address: address, key: provider.Key(u.APIKey)}
		if u.APIKey != "" {
			up.secrets = answers.NewSecrets(u.APIKey)
		}
		byName[u.Name] = up
	}
	return byName, nil
}

// serves reports whether the upstream has a route for a model.
func (u *upstream) serves(r *route.Route, model string) bool {
	return u.provider.Has(r.Dialect, r.Path) && (!u.address.InPath(r.Path) || objects.IsID(model))
}

// roundTrip sends a request to the upstream. Its key is masked in the body that comes back.
func (u *upstream) roundTrip(through http.RoundTripper, r *http.Request) (*http.Response, error) {
	resp, err := through.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	resp.Body = answers.NewBody(resp.Body, u.secrets)
	return resp, nil
}

// sign sets the headers that are only for this upstream.
func (u *upstream) sign(h http.Header) { u.provider.Sign(h, u.key) }

// newSet makes a pool's set of upstreams, from which one is chosen for each try. What was believed
// about those that were there before is kept.
func newSet(p *tenants.Pool, byName map[string]*upstream, before *upstreams.Set) ([]*upstream, *upstreams.Set) {
	var list []*upstream
	var specs []upstreams.Spec
	for _, m := range p.Upstreams {
		u := byName[m.Name]
		list = append(list, u)
		specs = append(specs, upstreams.Spec{Name: u.name, Weight: m.Weight, Identity: u.identity()})
	}
	return list, upstreams.New(specs, before)
}

// serving are the pool's upstreams that have a route for a model.
func (p *poolSide) serving(r *route.Route, model string) (some upstreams.Mask) {
	for i, u := range p.upstreams {
		if u.serves(r, model) {
			some = some.With(i)
		}
	}
	return some
}

// servedByNone refuses a call to a route that none of the pool's upstreams has.
func (c *call) servedByNone() *refusal {
	var kinds []string
	for _, u := range c.pool.upstreams {
		kinds = append(kinds, u.name+" ("+u.provider.Kind+")")
	}
	return &refusal{
		Status: http.StatusNotFound, Code: admission.CodeNotFound,
		Message: "Pool " + c.pool.Name + " has no upstream that serves " + c.r.Method + " " + brief(c.r.URL.Path) + " for " + quoted(brief(c.head.Model)) +
			": it has " + strings.Join(kinds, ", ") + ".",
	}
}
