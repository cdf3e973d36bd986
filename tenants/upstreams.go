package tenants

import (
	"net/url"
	"regexp"
	"slices"
	"strings"
)

var upstreamShape = shape[Upstream]{
	fields: []field[Upstream]{
		{
			name: "base_url", about: "Where the provider's routes begin, such as https://api.openai.com/v1. Of an azure it is the resource; with ?api-version=… its deployments are called.",
			kind: stringKind(`^[hH][tT][tT][pP][sS]?://[^/?#@]+(/[^?#]*)?(\?api-version=[0-9A-Za-z.-]+)?$`),
			read: func(v value, u *Upstream) { u.BaseURL = v.baseURL() },
		},
		{
			name: "api_key", about: "What is sent to the provider as its key. Best \"${NAME}\".",
			kind: textKind(secretPattern), read: func(v value, u *Upstream) { u.APIKey = v.secret() },
			start: func(u *Upstream) any { return u.APIKey },
		},
		{
			name: "kind", about: "The provider's dialect.", kind: wordKind(upstreamKinds...),
			read: func(v value, u *Upstream) { u.Kind = v.upstreamKind() }, start: func(u *Upstream) any { return u.Kind },
		},
	},
	also: schema{
		"required": []any{"base_url"},
		"if":       schema{"not": schema{"required": []any{"kind"}, "properties": schema{"kind": orVariable(schema{"const": Azure})}}},
		"then":     schema{"properties": schema{"base_url": schema{"not": schema{"pattern": `^[^$]*\?`}}}},
	},
}

// upstreamKinds are the kinds of upstreams, as files name them.
var upstreamKinds = []string{OpenAI, Azure, Anthropic}

// secretPattern matches what can be sent in a header.
const secretPattern = `^[!-~]*$`

// upstreamKind reads an upstream's dialect.
func (v value) upstreamKind() string {
	text, ok := v.scalar()
	if !ok {
		return OpenAI
	}
	if complaint := checkUpstreamKind(text); complaint != "" {
		v.problem("%s %s", v.say(text), complaint)
		return unreadable // its base_url is not held to the rules of another
	}
	return text
}

func checkUpstreamKind(text string) string {
	if slices.Contains(upstreamKinds, text) {
		return ""
	}
	return "is not a kind of upstream; " + adviseWord(text, upstreamKinds)
}

func (v value) secret() string {
	text, ok := v.scalar()
	if !ok {
		return ""
	}
	if complaint := checkSecret(text); complaint != "" {
		v.problem("value (not shown) %s", complaint)
	}
	return text
}

// unread stands for a base_url that was refused, so that it is not called missing as well.
const unread = "http://unread.invalid"

func (v value) baseURL() string {
	text, ok := v.scalar()
	if !ok {
		return unread
	}
	if complaint := checkBaseURL(text); complaint != "" {
		shown := v.say(text)
		if strings.ContainsAny(text, "@?#") {
			shown = "value (not shown)" // a password or a key may be in it
		}
		v.problem("%s %s", shown, complaint)
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
	if strings.Contains(u.BaseURL, "?") && u.Kind != Azure && u.Kind != unreadable {
		return "has an api-version, which only kind azure knows; remove ? and what follows, or write kind: azure"
	}
	return ""
}
