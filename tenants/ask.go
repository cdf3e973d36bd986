package tenants

import (
	"errors"
	"slices"
	"strings"

	"github.com/llmgov/llmgov/internal/lib/strictyaml"
)

// The kinds of an [AskError].
var (
	ErrNoTenant = errors.New("tenants: no such tenant")
	ErrNoModel  = errors.New("tenants: no pool serves the model")
	ErrNoGrant  = errors.New("tenants: the tenant may not use the model")
	ErrNoKeys   = errors.New("tenants: the tenant has no keys")
)

// AskError is a question about calls that nobody makes. Kind is one of those above; What is the message for people, and names
// the word that was probably meant.
type AskError struct {
	Kind error
	What string
}

func (e *AskError) Error() string { return e.What }

// Unwrap is the kind.
func (e *AskError) Unwrap() error { return e.Kind }

// Ask finds the caller and the pool that a person asks about: the tenant or team of a name, and the pool that serves it a model. The
// error is an [AskError].
func (s *Snapshot) Ask(tenant, model string) (*Tenant, *Pool, error) {
	t, err := s.AskTenant(tenant)
	if err != nil {
		return nil, nil, err
	}
	p, ok := s.PoolOf(model)
	if !ok {
		return nil, nil, &AskError{ErrNoModel, "no pool serves the model " + strictyaml.Show(model) + "; " + strictyaml.Advise(model, s.models())}
	}
	if !t.MayUse(model) || !t.open(p) {
		var may []string
		for _, m := range s.ModelsFor(t) {
			may = append(may, m.Name)
		}
		return nil, nil, &AskError{ErrNoGrant, "tenant " + strictyaml.Show(tenant) + " may not use the model " + strictyaml.Show(model) + "; of its models " + strictyaml.Advise(model, may)}
	}
	if !s.Callable()[t.Index] {
		return nil, nil, &AskError{ErrNoKeys, "tenant " + strictyaml.Show(tenant) + " has no keys, so nobody calls in its name; " + s.callers(t)}
	}
	return t, p, nil
}

// AskTenant finds whom a person asks about: the tenant or team of a name. The error is an [AskError].
func (s *Snapshot) AskTenant(name string) (*Tenant, error) {
	t, ok := s.TenantByName(name)
	root := rootOf(name)
	if at := slices.IndexFunc(s.aside, func(t RuntimeTenant) bool { return t.Tenant == root }); !ok && at >= 0 {
		return nil, &AskError{ErrNoTenant, s.Unfit()[at]}
	}
	if !ok {
		return nil, &AskError{ErrNoTenant, "there is no tenant " + strictyaml.Show(name) + "; " + strictyaml.Advise(name, s.names())}
	}
	return t, nil
}

func (s *Snapshot) names() []string {
	var list []string
	for i := range s.tenants {
		list = append(list, s.tenants[i].Name)
	}
	return list
}

// models are the entries of all pools.
func (s *Snapshot) models() []string {
	var list []string
	for i := range s.cfg.Pools {
		list = append(list, s.cfg.Pools[i].Models...)
	}
	return list
}

// callers says whom to ask about instead of a tenant without keys.
func (s *Snapshot) callers(t *Tenant) string {
	var teams []string
	for i, callable := range s.Callable() {
		if callable && strings.HasPrefix(s.tenants[i].Name, t.Name+teamSep) {
			teams = append(teams, s.tenants[i].Name)
		}
	}
	if len(teams) == 0 {
		return "make one with llmgov keys new"
	}
	slices.Sort(teams)
	return "its teams do: " + strings.Join(teams, ", ")
}
