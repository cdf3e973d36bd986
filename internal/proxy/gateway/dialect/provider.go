package dialect

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/llmgov/llmgov/internal/proxy/upstreams"
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
	// Agents begin the headers that agents and other clients send to upstreams of this kind alone: see Passes.
	Agents []string

	Speaks []*Dialect      // nil is all of them, which servers of other vendors speak
	Lacks  map[string]bool // paths of these that it does not have
	// Place finds where its routes begin, given the base_url without a slash at its end.
	Place func(*Address)

	// Limits is how it declares its limits.
	Limits *upstreams.Reader
	// Lists reports whether it lists the models that can be called, when asked with ListQuery.
	Lists     bool
	ListQuery url.Values
}

// Providers are the kinds of upstreams. The first one stands for kinds that are not known.
var Providers = []*Provider{openAIProvider, azureProvider, anthropicProvider}

var openAIProvider = &Provider{
	Kind:       "openai",
	Convention: "openai",
	KeyHeader:  "Authorization",
	KeyScheme:  "Bearer ",
	Agents:     append([]string{"X-Openrouter-", "X-Session-Affinity", "X-Session-Id", "X-Opencode-", "X-Grok-Conv-Id"}, codex...),
	Limits:     &upstreams.OpenAI,
	Lists:      true,
}

var anthropicProvider = &Provider{
	Kind:       "anthropic",
	Convention: "anthropic",
	KeyHeader:  "X-Api-Key",
	Defaults:   http.Header{anthropicVersion: {"2023-06-01"}}, // for callers without a version of their own
	Agents:     []string{"Anthropic-", "X-Claude-Code-", "X-App"},
	Speaks:     []*Dialect{Anthropic},
	Place: func(a *Address) {
		if a.Base.Path == "" {
			a.Base.Path = "/v1"
		}
	},
	Limits:    &upstreams.Anthropic,
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

// codex are the headers of Codex.
var codex = []string{"X-Codex-", "Originator", "Session-Id", "Session_id", "Thread-Id", "Conversation_id", "Version"}

const (
	// mostAgent bounds the length of an agent's header.
	mostAgent = 4 << 10
	// turnMetadata is a header in which Codex names the caller's machine and folders.
	turnMetadata = "X-Codex-Turn-Metadata"
)

// others are words in the names of headers by which a caller could speak for somebody else, or for an account: they are the
// operator's to say.
var others = []string{
	"account", "admin", "auth", "billing", "budget", "bypass", "cookie", "credential", "customer", "fallback", "forward", "host", "internal", "key", "model", "-org", "override",
	"priority", "project", "provider", "proxy", "ratelimit", "secret", "spend", "tenant", "tier", "token", "url", "user", "webhook", "workspace",
}

// Passes reports whether a caller's header is one that agents send to upstreams of this kind. The list is open, because
// agents have new ones every month: the beginnings of names are known, and nothing that speaks for others is passed.
func (p *Provider) Passes(name string, values []string) bool {
	if !p.ofAgent(name) || name == turnMetadata || len(values) != 1 || len(values[0]) > mostAgent {
		return false
	}
	lower := strings.ToLower(name)
	return !slices.ContainsFunc(others, func(word string) bool { return strings.Contains(lower, word) })
}

// ofAgent reports whether a name is one of Agents, or begins as one that ends in a dash.
func (p *Provider) ofAgent(name string) bool {
	for _, begin := range p.Agents {
		rest, ok := strings.CutPrefix(name, begin)
		if ok && (rest == "") != strings.HasSuffix(begin, "-") {
			return true
		}
	}
	return false
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
