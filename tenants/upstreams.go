package tenants

import (
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/llmgov/llmgov/governor/terms"
	"github.com/llmgov/llmgov/internal/lib/strictyaml"
)

var upstreamShape = shape[Upstream]{
	Fields: []field[Upstream]{
		{
			Name: "base_url", About: "Where the provider's routes begin, such as https://api.openai.com/v1. Of an azure it is the resource; with ?api-version=… its deployments are called.",
			Kind: strictyaml.StringKind(`^[hH][tT][tT][pP][sS]?://[^/?#@]+(/[^?#]*)?(\?api-version=[0-9A-Za-z.-]+)?$`),
			Read: func(v value, u *Upstream) { u.BaseURL = readBaseURL(v) }, Need: needBaseURL,
		},
		{
			Name: "api_key", About: "What is sent to the provider as its key. Best \"${NAME}\" or \"file:/run/secrets/name\".",
			Kind: strictyaml.TextKind(secretPattern), Read: func(v value, u *Upstream) { u.APIKey = readSecret(v) },
			Start: func(u *Upstream) any { return u.APIKey },
		},
		{
			Name: "kind", About: "The provider's dialect.", Kind: upstreamKinds.kind(),
			Read: func(v value, u *Upstream) { u.Kind = readUpstreamKind(v) }, Start: func(u *Upstream) any { return u.Kind },
		},
		upstreamTLSField,
		{
			Name: "heed", About: "What the limits that the provider declares, and their use by others with the same key, may do: lower the limits of pools, nothing, or raise limits with a max, too.",
			Kind: heedWords.kind(), Read: func(v value, u *Upstream) { u.Heed = heedWords.read(v, HeedLower) }, Start: func(*Upstream) any { return HeedLower },
		},
		limitsAPIField,
		engineField,
	},
	Short: "base_url",
	Also: schema{
		"if":   schema{"not": schema{"required": []any{"kind"}, "properties": schema{"kind": strictyaml.OrVariable(schema{"const": Azure})}}},
		"then": schema{"properties": schema{"base_url": schema{"not": schema{"pattern": `^[^$]*\?`}}}},
	},
}

const needBaseURL = "write one such as https://api.openai.com/v1"

var upstreamKinds = words[string]{"a kind of upstream", []string{OpenAI, Azure, Anthropic}}

var heedWords = words[string]{"a way to heed limits", []string{HeedLower, HeedOff, HeedFollow}}

// secretPattern matches texts that can be sent in a header.
const secretPattern = `^[!-~]*$`

// readUpstreamKind reads an upstream's dialect.
func readUpstreamKind(v value) string {
	kind := upstreamKinds.read(v, OpenAI)
	if v.Report.Refused[v.Path] {
		return strictyaml.Unreadable // its base_url is not held to the rules of another
	}
	return kind
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

// hasOtherTiers reports whether a provider speaks OpenAI's dialect with tiers of other names: Groq has on_demand, and Google standard.
func hasOtherTiers(baseURL string) bool {
	at, err := url.Parse(baseURL)
	return err == nil && (at.Hostname() == "api.groq.com" || strings.HasSuffix(at.Hostname(), "googleapis.com"))
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
	return checkPort(u)
}

// checkPort complains about a port that no server has.
func checkPort(u *url.URL) string {
	if u.Port() == "" {
		return ""
	}
	port, err := strconv.ParseUint(u.Port(), 10, 16)
	if err != nil || port == 0 {
		return "has no valid port; write a number from 1 to 65535"
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

var poolUpstreamShape = shape[PoolUpstream]{
	Fields: slices.Concat([]field[PoolUpstream]{
		{
			Name: "name", About: "One of upstreams.", Kind: strictyaml.NameKind,
			Read: func(v value, u *PoolUpstream) { u.Name = v.Named() }, Need: "write that of an upstream, such as {name: openai, weight: 3}",
		},
		strictyaml.AmountField("weight", "Its part of the calls, beside the weights of the others. Left out, it is in proportion to its tpm if all upstreams of its order have a tpm and none a weight, else 1.", 1, maxUpstreamWeight,
			func(u *PoolUpstream) *int64 { return &u.Weight }),
		strictyaml.AmountField("order", "Which of them come first: those of the lowest order of which one is ready. 0 when left out.", 0, maxOrder,
			func(u *PoolUpstream) *int64 { return &u.Order }),
		{
			Name: "models", About: "The upstream's own names of models, such as {gpt-4o: my-deployment}.",
			Kind: aliasKind, Read: readModelNames,
		},
		{
			Name: "price", About: "What tokens of any model cost there, as in prices. Left out, they cost what prices says.",
			Kind: func() schema { return priceShape.Schema(nil) }, Read: readUpstreamPrice,
		},
		shortWindowsField[PoolUpstream]("write per: 1m alone"),
	}, capacityFields[PoolUpstream]("Its own %s. 0 is no limit.", terms.Axes)),
	Short: "name",
}

func poolUpstreamList() schema {
	s := strictyaml.ListOf(func() schema { return poolUpstreamShape.Schema(&PoolUpstream{}) }, 1, true)()
	s["maxItems"] = maxUpstreams
	return s
}

// readPoolUpstream reads the one upstream of a pool.
func readPoolUpstream(v value, p *Pool) {
	if len(p.Upstreams) > 0 {
		v.Problem("is there beside upstreams; write one of them")
		return
	}
	p.Upstreams = []PoolUpstream{{Name: v.Named()}}
}

// readPoolUpstreams reads a pool's list of upstreams.
func readPoolUpstreams(v value, p *Pool) {
	if len(p.Upstreams) > 0 {
		v.Problem("is there beside upstream; write one of them")
		return
	}
	items, ok := v.Items()
	if ok && len(items) == 0 {
		v.Problem("is empty; write at least one, such as {name: openai, weight: 3}, or remove the key")
	}
	for _, it := range items {
		u := PoolUpstream{Name: strictyaml.Unreadable}
		poolUpstreamShape.Read(it, &u)
		p.Upstreams = append(p.Upstreams, u)
	}
	if len(items) == 0 { // it has been said
		p.Upstreams = []PoolUpstream{{Name: strictyaml.Unreadable}}
	}
	checkUpstreams(v.Report, v.Path, p.Upstreams)
}

// checkUpstreams complains about a list that is too long, and names that it has twice.
func checkUpstreams(r *report, path string, list []PoolUpstream) {
	if len(list) > maxUpstreams {
		r.At(path, "has %d upstreams; write at most %d", len(list), maxUpstreams)
	}
	for i, u := range list {
		if u.Name != strictyaml.Unreadable && slices.ContainsFunc(list[:i], func(o PoolUpstream) bool { return o.Name == u.Name }) {
			r.At(strictyaml.Item(path, i), "%s is there twice; remove one, and add up the weights", r.ShownIn(strictyaml.Item(path, i), "name", u.Name))
		}
	}
}

// poolUpstreams checks that a pool's upstreams are there, and fills in the only one that it can be.
func (c *compiler) poolUpstreams(p *Pool, path string) {
	names := make([]string, len(c.cfg.Upstreams))
	for i, u := range c.cfg.Upstreams {
		names[i] = u.Name
	}
	switch {
	case len(names) == 0: // that is the problem
	case len(p.Upstreams) == 0 && len(names) == 1:
		p.Upstreams = []PoolUpstream{{Name: names[0]}}
	case len(p.Upstreams) == 0 && !c.r.Refused[strictyaml.Child(path, "upstream")]:
		c.r.At(path, "has no upstream and there are %d to choose from; write upstream", len(names))
	}
	p.defaultWeights()
	for i := range p.Upstreams {
		u := &p.Upstreams[i]
		if len(names) == 0 || u.Name == strictyaml.Unreadable || slices.Contains(names, u.Name) {
			continue
		}
		at := strictyaml.Child(path, "upstream")
		if _, single := c.r.Places[at]; !single {
			at = strictyaml.Item(strictyaml.Child(path, "upstreams"), i)
		}
		c.r.At(at, "there is no upstream %s; %s", c.r.ShownIn(at, "name", u.Name), strictyaml.Advise(u.Name, names))
	}
}
