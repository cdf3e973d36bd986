// Package upstream reaches one provider: its address, the key by which the gateway authenticates there, which is
// masked in answers, and the models that it lists. The choice among upstreams is package upstreams'.
package upstream

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"

	"github.com/llmgov/llmgov/internal/proxy/answers"
	"github.com/llmgov/llmgov/internal/proxy/gateway/dialect"
	"github.com/llmgov/llmgov/internal/proxy/gateway/route"
	"github.com/llmgov/llmgov/internal/proxy/objects"
	"github.com/llmgov/llmgov/internal/proxy/upstreams"
	"github.com/llmgov/llmgov/tenants"
)

// Upstream is a provider to which calls go.
type Upstream struct {
	Name     string
	Provider *dialect.Provider
	Address  dialect.Address
	Secrets  answers.Secrets // the key, as it must not come back
	Heed     string          // of the configuration
	Account  string          // the same for upstreams that count calls together, whatever they are called: those of one key at one host

	key       []string   // the header by which the gateway authenticates there; nil without a key
	modelList *modelList // the models that it lists
	limitsAPI tenants.LimitsAPI

	secured *secured // nil without TLS of its own

	Additions upstreams.Additions // that it has refused, since the policy was read
}

// Identity is the same for the same upstream in the policies before and after a reload, even under
// another name.
func (u *Upstream) Identity() string {
	return fmt.Sprint(u.Provider.Kind, u.Address.String(), u.key, u.secured.digest())
}

// New resolves the upstreams of a configuration, by name.
func New(list []tenants.Upstream) (map[string]*Upstream, error) {
	byName := map[string]*Upstream{}
	for _, u := range list {
		provider := dialect.ProviderOf(u.Kind)
		address, err := provider.Address(u.BaseURL)
		if err != nil {
			return nil, fmt.Errorf("gateway: upstream %s: %w", u.Name, err)
		}
		up := &Upstream{Name: u.Name, Provider: provider, Address: address, Heed: u.Heed, key: provider.Key(u.APIKey), modelList: &modelList{}, limitsAPI: u.LimitsAPI}
		if u.APIKey != "" {
			up.Secrets = answers.NewSecrets(u.APIKey)
		}
		if up.secured, err = newSecured(&u.TLS); err != nil {
			return nil, fmt.Errorf("gateway: upstream %s: %w", u.Name, err)
		}
		up.Account = up.account(u.APIKey)
		byName[u.Name] = up
	}
	return byName, nil
}

// account is a digest of whose calls are counted together: those with a key at one host or, without a key, at one address.
func (u *Upstream) account(key string) string {
	at := u.Address.Base
	at.Host = strings.ToLower(at.Host)
	if port := at.Port(); port == "443" && at.Scheme == "https" || port == "80" && at.Scheme == "http" {
		at.Host = strings.TrimSuffix(at.Host, ":"+port)
	}
	if key != "" {
		return digest(at.Host, key)
	}
	return digest(at.String(), u.secured.digest())
}

func digest(parts ...string) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q", parts))
	return hex.EncodeToString(sum[:])
}

// Serves reports whether the upstream has a route for a model.
func (u *Upstream) Serves(r *route.Route, model string) bool {
	return u.Provider.Has(r.Dialect, r.Path) && (!u.Address.InPath(r.Path) || objects.IsID(model))
}

// RoundTrip sends a request to the upstream. The body that comes back is decoded, and the upstream's key is masked in it.
func (u *Upstream) RoundTrip(through http.RoundTripper, r *http.Request) (*http.Response, error) {
	resp, err := u.By(through).RoundTrip(r)
	if err != nil {
		return nil, err
	}
	answers.Decode(resp)
	resp.Body = answers.NewBody(resp.Body, u.Secrets)
	return resp, nil
}

// Sign sets the headers that are only for this upstream.
func (u *Upstream) Sign(h http.Header) { u.Provider.Sign(h, u.key) }
