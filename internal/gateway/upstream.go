package gateway

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strings"

	"github.com/llmgov/llmgov/internal/admission"
	"github.com/llmgov/llmgov/internal/answers"
	"github.com/llmgov/llmgov/internal/objects"
	"github.com/llmgov/llmgov/internal/upstreams"
	"github.com/llmgov/llmgov/tenants"
)

// upstream is a provider to which calls go.
type upstream struct {
	name string
	kind string
	base url.URL // where its routes begin
	// version is the api-version of an Azure resource; empty for none. deployments says that its
	// deployments are called, rather than /openai/v1.
	version     string
	deployments bool
	// keyHeader and key are how the gateway authenticates there; empty without a key.
	keyHeader string
	key       []string
	secrets   answers.Secrets // that key, as it must not come back
	shelf     *shelf          // what it says it has
}

// identity is the same for the same upstream in the policies before and after a reload, even under
// another name.
func (u *upstream) identity() string { return fmt.Sprint(u.kind, u.base.String(), u.version, u.key) }

// newUpstreams resolves the upstreams of a configuration, by name.
func newUpstreams(list []tenants.Upstream) (map[string]*upstream, error) {
	byName := map[string]*upstream{}
	for _, u := range list {
		base, err := url.Parse(u.BaseURL)
		if err != nil {
			return nil, fmt.Errorf("gateway: upstream %s: %w", u.Name, err)
		}
		up := &upstream{name: u.Name, kind: u.Kind, version: base.Query().Get(apiVersionKey)}
		up.base = url.URL{Scheme: base.Scheme, Host: base.Host, Path: strings.TrimSuffix(base.Path, "/")}
		scheme := ""
		switch u.Kind {
		case tenants.Azure:
			up.keyHeader = "Api-Key"
			up.placeAzure()
		case tenants.Anthropic:
			up.keyHeader = "X-Api-Key"
			if up.base.Path == "" {
				up.base.Path = "/v1"
			}
		default:
			up.keyHeader = "Authorization"
			scheme = "Bearer "
		}
		if u.APIKey != "" {
			up.key = []string{scheme + u.APIKey}
			up.secrets = answers.NewSecrets(u.APIKey)
		}
		byName[u.Name] = up
	}
	return byName, nil
}

// placeAzure finds where the routes of an Azure resource begin. People write its address with and
// without the path that its documentation shows.
func (u *upstream) placeAzure() {
	root, v1 := strings.CutSuffix(u.base.Path, "/openai/v1")
	if !v1 {
		root = strings.TrimSuffix(root, "/openai")
	}
	u.deployments = !v1 && u.version != ""
	u.base.Path = root + "/openai"
	if !u.deployments {
		u.base.Path += "/v1"
	}
}

// byDeployment are the routes that an Azure resource with an api-version has below each deployment;
// other routes it has beside the deployments.
var byDeployment = map[string]bool{
	"/chat/completions": true, "/completions": true, "/embeddings": true, "/images/generations": true, "/images/edits": true,
	"/audio/speech": true, "/audio/transcriptions": true, "/audio/translations": true,
}

// notAzure are routes that Azure's OpenAI resources do not have.
var notAzure = map[string]bool{"/moderations": true, "/images/variations": true}

// serves reports whether the upstream has a route for a model.
func (u *upstream) serves(r *route, model string) bool {
	switch {
	case u.kind == tenants.Anthropic:
		return r.dialect == anthropic
	case u.kind == tenants.Azure && (r.dialect == anthropic || notAzure[r.path]):
		return false
	}
	return !u.deployments || !byDeployment[r.path] || objects.IsID(model) // it becomes a part of the path
}

// url is the address of a path below /v1 at the upstream. The query is written anew, so that it has
// one meaning to every reader.
func (u *upstream) url(path, model string, query url.Values) *url.URL {
	at := u.base
	if u.version == "" {
		at.Path += path
		at.RawQuery = query.Encode()
		return &at
	}
	values := url.Values{}
	maps.Copy(values, query)
	values.Set(apiVersionKey, u.version)
	switch {
	case !u.deployments:
	case byDeployment[path]:
		at.Path += "/deployments/" + model
	case values.Has("model"): // realtime
		values.Del("model")
		values.Set("deployment", model)
	}
	at.Path += path
	at.RawQuery = values.Encode()
	return &at
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

// anthropicVersion is what callers without a version of their own mean.
var anthropicVersion = []string{"2023-06-01"}

// sign sets the headers that are only for this upstream.
func (u *upstream) sign(h http.Header) {
	if u.key != nil {
		h[u.keyHeader] = u.key
	}
	if _, said := h["Anthropic-Version"]; u.kind == tenants.Anthropic && !said {
		h["Anthropic-Version"] = anthropicVersion
	}
}

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
func (p *poolSide) serving(r *route, model string) (some upstreams.Mask) {
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
		kinds = append(kinds, u.name+" ("+u.kind+")")
	}
	return &refusal{
		Status: http.StatusNotFound, Code: admission.CodeNotFound,
		Message: "Pool " + c.pool.Name + " has no upstream that serves " + c.r.Method + " " + brief(c.r.URL.Path) + " for " + quoted(brief(c.head.Model)) +
			": it has " + strings.Join(kinds, ", ") + ".",
	}
}
