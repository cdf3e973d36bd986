package tenants

import (
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/llmgov/llmgov/internal/strictyaml"
)

var upstreamShape = shape[Upstream]{
	Fields: []field[Upstream]{
		{
			Name: "base_url", About: "Where the provider's routes begin, such as https://api.openai.com/v1. Of an azure it is the resource; with ?api-version=… its deployments are called.",
			Kind: strictyaml.StringKind(`^[hH][tT][tT][pP][sS]?://[^/?#@]+(/[^?#]*)?(\?api-version=[0-9A-Za-z.-]+)?$`),
			Read: func(v value, u *Upstream) { u.BaseURL = readBaseURL(v) },
		},
		{
			Name: "api_key", About: "What is sent to the provider as its key. Best \"${NAME}\".",
			Kind: strictyaml.TextKind(secretPattern), Read: func(v value, u *Upstream) { u.APIKey = readSecret(v) },
			Start: func(u *Upstream) any { return u.APIKey },
		},
		{
			Name: "kind", About: "The provider's dialect.", Kind: strictyaml.WordKind(upstreamKinds...),
			Read: func(v value, u *Upstream) { u.Kind = readUpstreamKind(v) }, Start: func(u *Upstream) any { return u.Kind },
		},
	},
	Also: schema{
		"required": []any{"base_url"},
		"if":       schema{"not": schema{"required": []any{"kind"}, "properties": schema{"kind": strictyaml.OrVariable(schema{"const": Azure})}}},
		"then":     schema{"properties": schema{"base_url": schema{"not": schema{"pattern": `^[^$]*\?`}}}},
	},
}

// upstreamKinds are the kinds of upstreams, as files name them.
var upstreamKinds = []string{OpenAI, Azure, Anthropic}

// secretPattern matches what can be sent in a header.
const secretPattern = `^[!-~]*$`

// upstreamKind reads an upstream's dialect.
func readUpstreamKind(v value) string {
	text, ok := v.Scalar()
	if !ok {
		return OpenAI
	}
	if complaint := checkUpstreamKind(text); complaint != "" {
		v.Problem("%s %s", v.Say(text), complaint)
		return strictyaml.Unreadable // its base_url is not held to the rules of another
	}
	return text
}

func checkUpstreamKind(text string) string {
	if slices.Contains(upstreamKinds, text) {
		return ""
	}
	return "is not a kind of upstream; " + strictyaml.AdviseWord(text, upstreamKinds)
}

func readSecret(v value) string {
	text, ok := v.Scalar()
	if !ok {
		return ""
	}
	if complaint := checkSecret(text); complaint != "" {
		v.Problem("value (not shown) %s", complaint)
	}
	return text
}

// unread stands for a base_url that was refused, so that it is not called missing as well.
const unread = "http://unread.invalid"

func readBaseURL(v value) string {
	text, ok := v.Scalar()
	if !ok {
		return unread
	}
	if complaint := checkBaseURL(text); complaint != "" {
		shown := v.Say(text)
		if strings.ContainsAny(text, "@?#") {
			shown = "value (not shown)" // a password or a key may be in it
		}
		v.Problem("%s %s", shown, complaint)
		return unread
	}
	return plainBase(text)
}

// plainBase is a base_url without slashes at the end of its path.
func plainBase(text string) string {
	path, query, has := strings.Cut(text, "?")
	if has {
		query = "?" + query
	}
	return strings.TrimRight(path, "/") + query
}

// checkBaseURL complains about an address to which no route can be appended.
func checkBaseURL(text string) string {
	u, err := url.Parse(text)
	switch {
	case err != nil || text == "":
		return "is not a URL; write one such as https://api.openai.com/v1"
	case u.Scheme != "http" && u.Scheme != "https":
		return "does not begin with http:// or https://; write one such as https://api.openai.com/v1"
	case u.Hostname() == "":
		return "names no host; write one such as https://api.openai.com/v1"
	case u.User != nil:
		return "holds a user or password; use api_key"
	case strings.Contains(text, "#"):
		return "has a fragment; remove # and what follows"
	case (u.RawQuery != "" || u.ForceQuery) && !apiVersion.MatchString(u.RawQuery):
		return "has a query; remove ? and what follows, or, with kind azure, write ?api-version=2024-10-21 and nothing else there"
	}
	return ""
}

// apiVersion is the one query that a base_url may have.
var apiVersion = regexp.MustCompile(`^api-version=[0-9A-Za-z.-]+$`)

// checkQueryOf complains about a query of a base_url that means nothing to its kind.
func checkQueryOf(u *Upstream) string {
	if strings.Contains(u.BaseURL, "?") && u.Kind != Azure && u.Kind != strictyaml.Unreadable {
		return "has an api-version, which only kind azure knows; remove ? and what follows, or write kind: azure"
	}
	return ""
}
