package dialect

import (
	"fmt"
	"maps"
	"net/url"
	"strings"
)

// Address is where the routes of an upstream are.
type Address struct {
	Base url.URL // where they begin
	// version is the api-version of an Azure resource; empty for none. deployments says that its
	// deployments are called, rather than /openai/v1.
	version     string
	deployments bool
}

// Address reads a base_url.
func (p *Provider) Address(baseURL string) (Address, error) {
	base, err := url.Parse(baseURL)
	if err != nil {
		return Address{}, err
	}
	a := Address{
		Base:    url.URL{Scheme: base.Scheme, Host: base.Host, Path: strings.TrimSuffix(base.Path, "/")},
		version: base.Query().Get(VersionKey),
	}
	if p.Place != nil {
		p.Place(&a)
	}
	return a, nil
}

// String is the same for the same address.
func (a *Address) String() string { return fmt.Sprint(a.Base.String(), a.version) }

// URL is the address of a path below /v1, as a text.
func (a *Address) URL(path, model string, query url.Values) string {
	at := a.Of(path, model, query)
	return at.String()
}

// Of is the address of a path below /v1. The query is written anew, so that it has one meaning to every
// reader.
func (a *Address) Of(path, model string, query url.Values) url.URL {
	at := a.Base
	if a.version == "" {
		at.Path += path
		at.RawQuery = query.Encode()
		return at
	}
	values := url.Values{}
	maps.Copy(values, query)
	values.Set(VersionKey, a.version)
	switch {
	case !a.deployments:
	case byDeployment[path]:
		at.Path += "/deployments/" + model
	case values.Has("model"): // realtime
		values.Del("model")
		values.Set("deployment", model)
	}
	at.Path += path
	at.RawQuery = values.Encode()
	return at
}

// InPath reports whether the model becomes a part of the path of a route.
func (a *Address) InPath(path string) bool { return a.deployments && byDeployment[path] }
