package tenants

import (
	"io/fs"
	"net/netip"
	"net/url"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"github.com/llmgov/llmgov/internal/lib/strictyaml"
)

// Cautions lists valid settings that are unwise: secrets that others on the machine may read, keys that are sent in clear,
// addresses at which a provider's routes do not begin, servers whose load is read for nothing, upstreams that may raise limits of which none moves, and a
// proxy that others can pass for.
func (s *Snapshot) Cautions() []string {
	list := slices.Clone(s.exposed)
	for _, u := range s.cfg.Upstreams {
		if (u.APIKey != "" || u.LimitsAPI.Key != "") && inClear(u.BaseURL) {
			list = append(list, "upstream "+u.Name+": its api_key is sent in clear to "+hostOf(u.BaseURL)+"; use https, unless the network is yours alone")
		}
		if u.APIKey != "" && u.Engine.SendKey && inClear(u.Engine.URL) && !inClear(u.BaseURL) {
			list = append(list, "upstream "+u.Name+": its api_key is sent in clear to "+hostOf(u.Engine.URL)+" for its metrics; use https, or remove send_key")
		}
	}
	return append(list, s.unwise...)
}

// beyond is the path of a route, or what stands below it, behind which no other begins.
var beyond = regexp.MustCompile(`/(chat/completions|completions|embeddings|responses|messages|models)$|/v1/v1$`)

// providers are hosts at which routes of OpenAI's begin nowhere but here.
var providers = map[string]string{
	"https://api.openai.com": "/v1", "https://openrouter.ai": "/api/v1", "https://api.groq.com": "/openai/v1", "https://api.mistral.ai": "/v1",
	"https://api.x.ai": "/v1", "https://api.together.xyz": "/v1", "https://api.fireworks.ai": "/inference/v1", "https://api.cerebras.ai": "/v1",
	"https://generativelanguage.googleapis.com": "/v1beta/openai",
}

// misplaced describes addresses at which no routes begin: those of one route, and a provider's host alone.
func (c *compiler) misplaced() (list []string) {
	for _, u := range c.cfg.Upstreams {
		path, _, _ := strings.Cut(u.BaseURL, "?")
		says := ""
		right, known := providers[strings.TrimSuffix(path, "/v1")]
		switch part := beyond.FindString(path); {
		case part == "/v1/v1":
			says = "ends in /v1/v1; write /v1 once"
		case part != "":
			says = "ends in " + part + ", which is a route; routes are appended to it, so remove that"
		case known && u.Kind == OpenAI && !strings.HasSuffix(path, right):
			says = "is not where the provider's routes begin; write " + strings.TrimSuffix(path, "/v1") + right
		default:
			continue
		}
		found := c.r.Describe(strictyaml.Child(strictyaml.Child("upstreams", u.Name), "base_url"), "value (not shown) %s", says)
		list = append(list, found.String())
	}
	return list
}

// exposed names secrets that are written out in a config file that everybody on the machine may read.
func exposed(r *report, cfg *Config, name string, mode fs.FileMode) []string {
	const others = 0o004
	if runtime.GOOS == "windows" || mode.Perm()&others == 0 {
		return nil
	}
	var keys []string
	note := func(secret bool, path string) {
		_, variable := r.Typed[path]
		if secret && !variable && r.Places[path].File == name {
			keys = append(keys, strictyaml.Spell(path))
		}
	}
	note(cfg.Admin.Token != "", strictyaml.Child("admin", "token"))
	for i, r := range cfg.Admin.Roles {
		note(r.Token != "", strictyaml.Child(strictyaml.Item(strictyaml.Child("admin", "roles"), i), "token"))
	}
	note(cfg.Admission.Token != "", strictyaml.Child("admission", "token"))
	note(hasPassword(cfg.Store), "store")
	for _, u := range cfg.Upstreams {
		note(u.APIKey != "", strictyaml.Child(strictyaml.Child("upstreams", u.Name), "api_key"))
		note(u.LimitsAPI.Key != "", limitsKey(u.Name))
	}
	for i := range cfg.Notify {
		note(cfg.Notify[i].Secret != "", strictyaml.Child(strictyaml.Item("notify", i), "secret"))
		note(cfg.Notify[i].Format == FormatSlack, strictyaml.Child(strictyaml.Item("notify", i), "webhook")) // whoever knows it may post
	}
	if len(keys) == 0 {
		return nil
	}
	return []string{name + ": other users of this machine may read " + strings.Join(keys, ", ") + "; write ${NAME} instead, or run chmod o-r " + name}
}

// blank names secrets whose variables are set but empty, so that the listener or the upstream goes without.
func blank(r *report, cfg *Config) (notes []string) {
	note := func(secret, path, so string) {
		if typed, variable := r.Typed[path]; variable && secret == "" && !strings.Contains(typed, ":-") {
			notes = append(notes, strictyaml.Spell(path)+": "+typed+" is empty, so "+so)
		}
	}
	note(cfg.Admin.Token, strictyaml.Child("admin", "token"), "whoever can log in to this machine may operate the gateway")
	note(cfg.Admission.Token, strictyaml.Child("admission", "token"), "nobody may reserve for any tenant but by the tenant's key")
	for _, u := range cfg.Upstreams {
		note(u.APIKey, strictyaml.Child(strictyaml.Child("upstreams", u.Name), "api_key"), "calls go there without a key")
	}
	return notes
}

// inClear reports whether calls to an address can be read on a network.
func inClear(address string) bool {
	u, err := url.Parse(address)
	if err != nil || !strings.EqualFold(u.Scheme, "http") {
		return false
	}
	host := u.Hostname()
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return !strings.EqualFold(host, "localhost")
	}
	return !addr.Unmap().IsLoopback()
}

func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Host
}

// hasPassword reports whether the address of a store holds one.
func hasPassword(store string) bool {
	u, err := url.Parse(store)
	if err != nil {
		return false
	}
	_, inHost := u.User.Password()
	return inHost || strings.Contains(u.RawQuery, "password=")
}
