package tenants

import (
	"bytes"
	"cmp"
	"encoding/json"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/llmgov/llmgov/internal/lib/strictyaml"
	"github.com/llmgov/llmgov/tenants/internal/disk"
)

// Identity lets callers present tokens of their own company, in place of keys: JSON Web Tokens (RFC 7519) that its identity provider has signed.
type Identity struct {
	// Issuers are the providers whose tokens count. None leaves callers with keys alone.
	Issuers []Issuer
	// Tenant names the tenant of a token by its claims: "{org}" is the claim org, and text around it stays.
	Tenant string
	// Team names the team below it, likewise. Empty leaves calls to the tenant itself, as does a token that names no team of it.
	Team string
	// Tier names the tier of a token, likewise. Where the tenant or team found so far is of another one, the first team below it that is of the tier
	// has the call, and without one the token is refused. Empty, or a token without the claim, leaves all as it is.
	Tier string
	// Groups are those of a token, which may have a role on the admin side, likewise. Empty is "{groups}".
	Groups string
	// Default is the tenant of valid tokens that name none. Empty refuses them.
	Default string
}

// Issuer is one identity provider.
type Issuer struct {
	// Issuer is the claim iss of its tokens, an https URL.
	Issuer string
	// Audience is one of the audiences that a token must be for.
	Audience string
	// JWKS is where the provider's public keys are: a URL, or a file relative to the config file. Empty asks the issuer, by OpenID Connect Discovery.
	JWKS string
	// Keys is what is in that file.
	Keys string
	// Algorithms are those of signatures that count, all of which take a public key. Default RS256 and ES256.
	Algorithms []string
	// Leeway is how long after its end a token still counts, because clocks differ.
	Leeway time.Duration
}

// ByURL reports whether the public keys are at a URL.
func (i *Issuer) ByURL() bool { return strings.Contains(i.JWKS, "://") }

// signatures are the algorithms by which tokens may be signed. Those with a secret that both sides have are not among them: whoever could check a
// token could make one.
var signatures = words[string]{"a signature by a private key", []string{"RS256", "RS384", "RS512", "ES256", "ES384", "ES512", "PS256", "PS384", "PS512", "EdDSA"}}

// DefaultGroups names the groups of a token, unless Identity.Groups does.
const DefaultGroups = "{groups}"

const (
	maxIssuers = 32
	maxLeeway  = 5 * time.Minute
)

// claimPath is the name of a claim, or names from the outside in with points between them.
const claimPath = `[A-Za-z0-9_:/-]+(\.[A-Za-z0-9_:/-]+)*`

var (
	// claimTemplate is a name made of one claim, and text around it.
	claimTemplate = regexp.MustCompile(`^([A-Za-z0-9._/-]*)\{(` + claimPath + `)\}([A-Za-z0-9._/-]*)$`)
	claimKind     = strictyaml.TextKind(claimTemplate.String())
)

var issuerShape = shape[Issuer]{
	Fields: []field[Issuer]{
		{
			Name: "issuer", About: "The claim iss of its tokens, such as https://login.example.com.", Kind: strictyaml.TextKind(`^https?://\S+$`),
			Read: func(v value, i *Issuer) { i.Issuer = readIssuerURL(v) }, Need: needClaim,
		},
		{
			Name: "audience", About: "One of the audiences (aud) that a token must be for.", Kind: strictyaml.TextKind(`.`),
			Read: func(v value, i *Issuer) { i.Audience, _ = v.Scalar() }, Need: needClaim,
		},
		{
			Name: "jwks", About: "Where its public keys are: a URL, or a file relative to this one. Left out, the issuer is asked, by OpenID Connect Discovery.",
			Kind: strictyaml.TextKind(`.`), Read: func(v value, i *Issuer) { i.JWKS, _ = v.Scalar() },
		},
		{
			Name: "algorithms", About: "The algorithms of signatures that count. Left out, RS256 and ES256.",
			Kind: strictyaml.ListOf(signatures.kind(), 1, true), Read: func(v value, i *Issuer) { i.Algorithms = signatures.readAll(v) },
		},
		strictyaml.DurationField("leeway", "How long after its end a token still counts, because clocks differ.", maxLeeway, func(i *Issuer) *time.Duration { return &i.Leeway }),
	},
}

const (
	needClaim    = "write it as the tokens have it"
	needIdentity = "write both issuers and tenant"
)

var identityShape = shape[Identity]{
	Fields: []field[Identity]{
		{
			Name: "issuers", About: "The identity providers whose tokens count.", Read: readIssuers, Need: needIdentity,
			Kind: strictyaml.ListOf(func() schema { return issuerShape.Schema(&Issuer{}) }, 1, true),
		},
		{
			Name: "tenant", About: "The tenant of a token by its claims, such as \"{org}\". Of a claim with several values the first in the policy's order counts.",
			Kind: claimKind, Read: func(v value, i *Identity) { i.Tenant = readTemplate(v) }, Need: needIdentity,
		},
		{
			Name: "team", About: "The team below that tenant, likewise. Left out, calls are the tenant's own.",
			Kind: claimKind, Read: func(v value, i *Identity) { i.Team = readTemplate(v) },
		},
		{
			Name: "tier", About: "The tier of a token, likewise: a call whose tenant, or team, is of another tier is of the first team below it of this one, and refused if there is none. Left out, as where a token has no such claim, any tier is right.",
			Kind: claimKind, Read: func(v value, i *Identity) { i.Tier = readTemplate(v) },
		},
		{
			Name: "groups", About: "The groups of a token, which admin.roles may name, likewise.", Kind: claimKind,
			Read: func(v value, i *Identity) { i.Groups = readTemplate(v) }, Start: func(*Identity) any { return DefaultGroups },
		},
		{
			Name: "default", About: "The tenant of valid tokens that name none. Left out, they are refused.", Kind: strictyaml.NameKind,
			Read: func(v value, i *Identity) { i.Default, _ = v.Scalar() },
		},
	},
}

func readIssuerURL(v value) string {
	text, ok := v.Scalar()
	if !ok {
		return strictyaml.Unreadable
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		v.Problem("%s is no issuer; write the iss of its tokens, such as https://login.example.com", v.Say(text))
		return strictyaml.Unreadable
	}
	return text
}

func readTemplate(v value) string {
	text, ok := v.Scalar()
	if ok && !claimTemplate.MatchString(text) {
		v.Problem("%s is made of no claim; write one in braces, such as \"{org}\" or \"team-{department}\"", v.Say(text))
	}
	return text
}

func readIssuers(v value, i *Identity) {
	items, ok := v.Items()
	switch {
	case ok && len(items) == 0:
		v.Problem("is empty; write at least one, or remove identity")
	case len(items) > maxIssuers:
		v.Problem("lists %d issuers; write at most %d", len(items), maxIssuers)
		return
	}
	for _, it := range items {
		one := Issuer{Algorithms: []string{"RS256", "ES256"}, Leeway: time.Minute}
		issuerShape.Read(it, &one)
		if slices.ContainsFunc(i.Issuers, func(o Issuer) bool { return o.Issuer == one.Issuer && o.Issuer != strictyaml.Unreadable }) {
			it.Problem("has the issuer %s of another one; remove one of them", strictyaml.Show(one.Issuer))
		}
		i.Issuers = append(i.Issuers, one)
	}
}

// publicKeys reads the files of issuers' public keys, which are followed like the config.
func (l *loader) publicKeys(cfg *Config) {
	for i := range cfg.Identity.Issuers {
		one := &cfg.Identity.Issuers[i]
		if one.JWKS == "" || one.ByURL() {
			continue
		}
		file := l.beside(one.JWKS)
		l.secretFiles = append(l.secretFiles, file)
		data, err := l.readFile(file)
		if err != nil {
			l.r.At(strictyaml.Child(strictyaml.Item(strictyaml.Child("identity", "issuers"), i), "jwks"), "%s cannot be read: %v; name a file with the issuer's public keys", strictyaml.Show(filepath.ToSlash(one.JWKS)), disk.Reason(err))
			continue
		}
		one.Keys = string(data)
		if at, complaint := checkKeys(data); complaint != "" {
			before := data[:at]
			line := bytes.Count(before, []byte("\n"))
			l.r.Add(place{File: l.show(file), Line: line + 1, Col: len(before) - bytes.LastIndexByte(before, '\n')}, "%s; write the issuer's public keys as a JSON Web Key Set", complaint)
		}
	}
}

// usableKeys are the kinds and curves of keys by which tokens can be checked.
var usableKeys = map[[2]string]bool{
	{"RSA", ""}: true, {"EC", "P-256"}: true, {"EC", "P-384"}: true, {"EC", "P-521"}: true, {"OKP", "Ed25519"}: true,
}

// checkKeys finds what is wrong with a set of public keys (RFC 7517), and where. Of its keys one must be usable.
func checkKeys(data []byte) (at int64, complaint string) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	switch err := json.Unmarshal(data, &set).(type) {
	case nil:
	case *json.SyntaxError:
		return max(0, err.Offset-1), "is no JSON: " + err.Error()
	case *json.UnmarshalTypeError:
		return max(0, err.Offset-1), cmp.Or(err.Field, "it") + " is a JSON " + err.Value
	default:
		return 0, err.Error()
	}
	for _, key := range set.Keys {
		var k struct{ Kty, Crv, D string }
		if json.Unmarshal(key, &k) == nil && k.D == "" && usableKeys[[2]string{k.Kty, k.Crv}] {
			return 0, ""
		}
	}
	return 0, "has no public RSA, EC or Ed25519 key"
}

// identity checks that the default tenant is there.
func (c *compiler) identity() {
	name := c.cfg.Identity.Default
	if name != "" && !slices.ContainsFunc(c.tenants, func(t Tenant) bool { return t.Name == name }) {
		c.r.At(strictyaml.Child("identity", "default"), "%s is no tenant of the policy; name one, or remove it", strictyaml.Show(name))
	}
}

// Template is the claim that a template names, and the text before and after it.
func Template(text string) (before string, claim []string, after string) {
	m := claimTemplate.FindStringSubmatch(text)
	if m == nil {
		return text, nil, ""
	}
	return m[1], strings.Split(m[2], "."), m[len(m)-1]
}
