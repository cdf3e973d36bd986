package tenants

import (
	"net/url"
	"strings"
)

var upstreamShape = shape[Upstream]{
	fields: []field[Upstream]{
		{
			name: "base_url", about: "Where the provider's routes begin, such as https://api.openai.com/v1.",
			kind: stringKind(`^[hH][tT][tT][pP][sS]?://[^/?#@]+(/[^?#]*)?$`),
			read: func(v value, u *Upstream) { u.BaseURL = v.baseURL() },
		},
		{
			name: "api_key", about: "What is sent to the provider as its key. Best \"${NAME}\".",
			kind: textKind(secretPattern), read: func(v value, u *Upstream) { u.APIKey = v.secret() },
			start: func(u *Upstream) any { return u.APIKey },
		},
		{
			name: "kind", about: "The provider's dialect.", kind: wordKind("openai"),
			read: func(v value, u *Upstream) { u.Kind = v.kind() }, start: func(u *Upstream) any { return u.Kind },
		},
	},
	also: schema{"required": []any{"base_url"}},
}

// secretPattern matches what can be sent in a header.
const secretPattern = `^[!-~]*$`

// kind reads an upstream's dialect.
func (v value) kind() string {
	text, ok := v.scalar()
	if !ok {
		return "openai"
	}
	switch text {
	case "openai":
	case "azure", "anthropic":
		v.problem("%s is not supported yet; write openai", text)
	default:
		v.problem("%s is no kind of upstream; write openai", v.say(text))
	}
	return "openai"
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
	return strings.TrimRight(text, "/")
}

// checkBaseURL complains about an address to which no route can be appended.
func checkBaseURL(text string) string {
	u, err := url.Parse(text)
	switch {
	case err != nil || text == "":
		return "is no URL; write one such as https://api.openai.com/v1"
	case u.Scheme != "http" && u.Scheme != "https":
		return "does not begin with http:// or https://; write one such as https://api.openai.com/v1"
	case u.Hostname() == "":
		return "names no host; write one such as https://api.openai.com/v1"
	case u.User != nil:
		return "holds a user or password; use api_key"
	case u.RawQuery != "" || u.ForceQuery:
		return "has a query; remove ? and what follows"
	case strings.Contains(text, "#"):
		return "has a fragment; remove # and what follows"
	}
	return ""
}
