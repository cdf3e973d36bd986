package litellm

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/llmgov/llmgov/tenants"
)

const anthropicKind = tenants.Anthropic

// upstream is one provider with one key.
type upstream struct {
	name, base, key string // base and key as the file will hold them, ${…} included
	kind            string // "" is OpenAI's
}

// upstream is where a deployment is, named but not yet in the list.
func (c *converter) upstream(who string, d deployment, base node) upstream {
	address := c.value(base)
	if address == "" {
		address = d.provider.base
	}
	u := upstream{name: who, base: strings.TrimRight(address, "/"), kind: d.provider.kind}
	switch {
	case u.kind == tenants.Azure:
		u.base = c.azureBase(address, d)
		if host := azureHost.FindStringSubmatch(address); host != nil {
			u.name += "-" + host[1]
		}
	case u.kind == tenants.Anthropic:
		u.base = strings.TrimSuffix(u.base, "/v1/messages")
	case strings.HasPrefix(who, "ollama") && !strings.HasSuffix(u.base, "/v1") && !strings.HasSuffix(u.base, "}"):
		u.base += "/v1" // where it speaks OpenAI's dialect
	}
	key := c.param(d, "api_key")
	u.key = c.value(key)
	if u.key == "" && d.provider.key != "" {
		u.key = "${" + d.provider.key + "}"
	} else if u.key != "" && !strings.HasPrefix(u.key, "${") {
		key.harmless("stands in the file as it is; better put it into the environment, and write ${NAME}")
		c.secrets = true
	}
	return u
}

// azureHost matches the address of a resource, and its name.
var azureHost = regexp.MustCompile(`^https?://([A-Za-z0-9-]+)\.(openai|cognitiveservices|services\.ai)\.azure\.com`)

// azureBase is the address of a resource, with the version by which its deployments are called.
func (c *converter) azureBase(address string, d deployment) string {
	address, query, _ := strings.Cut(address, "?")
	version := c.value(c.param(d, "api_version"))
	if asked, err := url.ParseQuery(query); version == "" && err == nil {
		version = asked.Get("api-version")
	}
	address, _, _ = strings.Cut(address, "/openai/deployments/")
	address = strings.TrimRight(address, "/")
	if v1, is := strings.CutSuffix(address, "/openai/v1"); is {
		return v1
	}
	address = strings.TrimSuffix(address, "/openai")
	switch version {
	case "":
		d.model.harmless("names no api_version, so its resource is called by the v1 routes")
	case "v1", "preview", "latest": // names of LiteLLM's for those
	default:
		return address + "?api-version=" + version
	}
	return address
}

// have is the name of an upstream in the list, where it is put when it is new.
func (c *converter) have(u upstream) string {
	for _, o := range c.upstreams {
		if o.base == u.base && o.key == u.key && o.kind == u.kind {
			return o.name
		}
	}
	u.name = unique(u.name, func(n string) bool {
		return slices.ContainsFunc(c.upstreams, func(o upstream) bool { return o.name == n })
	})
	c.upstreams = append(c.upstreams, u)
	return u.name
}

// dropUnused forgets the upstreams of models that were left out.
func (c *converter) dropUnused() {
	c.upstreams = slices.DeleteFunc(c.upstreams, func(u upstream) bool {
		return !slices.ContainsFunc(c.pools, func(p pool) bool {
			return slices.ContainsFunc(p.upstreams, func(m member) bool { return m.name == u.name })
		})
	})
}

// unique is name, or the first of name-2 and so on that is not taken.
func unique(name string, taken func(string) bool) string {
	for i, n := 2, name; ; i++ {
		if !taken(n) {
			return n
		}
		n = fmt.Sprintf("%s-%d", name, i)
	}
}

// reference matches a variable of a file, and whether it is an api-version.
var reference = regexp.MustCompile(`(api-version=)?\$\{([A-Za-z_][A-Za-z0-9_]*)\}`)

// StandIns are values, as NAME=value, for the variables that files ask for, by which the files can be read where the
// variables are not set.
func StandIns(files []File) []string {
	var vars []string
	for _, f := range files {
		for _, m := range reference.FindAllStringSubmatch(f.Text, -1) {
			value := "http://not-set-here"
			if m[1] != "" {
				value = "2024-10-21"
			}
			vars = append(vars, m[2]+"="+value)
		}
	}
	return vars
}
