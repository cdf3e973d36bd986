package dialect

import (
	"net/http"
	"net/url"
	"slices"

	"github.com/llmgov/llmgov/tenants"
)

// Provider is a kind of upstream.
type Provider struct {
	Kind       string // as policies name it
	Convention string // its name in the conventions for spans

	// KeyHeader carries the gateway's key, behind KeyScheme.
	KeyHeader string
	KeyScheme string
	// Defaults are headers that callers of the dialect may leave out, and the provider does not.
	Defaults http.Header

	Speaks []*Dialect      // nil is all of them, which servers of other vendors speak
	Lacks  map[string]bool // paths of these that it does not have
	// Place finds where its routes begin, given the base_url without a slash at its end.
	Place func(*Address)

	// Lists reports whether it lists the models that can be called, when asked with ListQuery.
	Lists     bool
	ListQuery url.Values
}

// Providers are the kinds of upstreams. The first one stands for kinds that are not known.
var Providers = []*Provider{openAIProvider, azureProvider, anthropicProvider}

var openAIProvider = &Provider{
	Kind:       tenants.OpenAI,
	Convention: "openai",
	KeyHeader:  "Authorization",
	KeyScheme:  "Bearer ",
	Lists:      true,
}

var anthropicProvider = &Provider{
	Kind:       tenants.Anthropic,
	Convention: "anthropic",
	KeyHeader:  "X-Api-Key",
	Defaults:   http.Header{anthropicVersion: {"2023-06-01"}}, // for callers without a version of their own
	Speaks:     []*Dialect{Anthropic},
	Place: func(a *Address) {
		if a.Base.Path == "" {
			a.Base.Path = "/v1"
		}
	},
	Lists:     true,
	ListQuery: url.Values{"limit": {"1000"}}, // the default is twenty
}

// ProviderOf finds a provider by its kind.
func ProviderOf(kind string) *Provider {
	for _, p := range Providers {
		if p.Kind == kind {
			return p
		}
	}
	return Providers[0]
}

// Has reports whether the provider has a route of a dialect; "" is the route of an object.
func (p *Provider) Has(d *Dialect, path string) bool {
	return (p.Speaks == nil || slices.Contains(p.Speaks, d)) && !p.Lacks[path]
}

// Sign sets the headers that are only for upstreams of this kind. The key is that of [Provider.Key].
func (p *Provider) Sign(h http.Header, key []string) {
	if key != nil {
		h[p.KeyHeader] = key
	}
	for name, values := range p.Defaults {
		if _, said := h[name]; !said {
			h[name] = values
		}
	}
}

// Key is the value of the header that carries a key; nil without one.
func (p *Provider) Key(key string) []string {
	if key == "" {
		return nil
	}
	return []string{p.KeyScheme + key}
}
