package tenants

import (
	"net/netip"
	"net/textproto"
	"regexp"
	"slices"
	"strings"

	"github.com/llmgov/llmgov/internal/lib/strictyaml"
	"github.com/llmgov/llmgov/tenants/internal/glob"
)

// Role is what a caller of the admin side may do.
type Role string

// The roles. RoleAdmin may do all, and RoleOperate whatever RoleView may.
const (
	RoleView    Role = "view"
	RoleKeys    Role = "keys" // make and revoke keys of some tenants
	RoleOperate Role = "operate"
	RoleAdmin   Role = "admin"
	// AnyRole is what is needed where each of them will do.
	AnyRole Role = "any"
)

var adminRoles = words[Role]{"a role", []Role{RoleView, RoleKeys, RoleOperate, RoleAdmin}}

// May reports whether a caller of the role may do what another one is needed for.
func (r Role) May(needed Role) bool {
	return r == needed || r == RoleAdmin || r == RoleOperate && needed == RoleView || r != "" && needed == AnyRole
}

// AdminRole gives a role to callers of the admin side, by a token or a group.
type AdminRole struct {
	// Name is theirs in the audit log.
	Name string
	Role Role
	// Token is what they present, of at least 16 characters.
	Token string
	// Group is in the token of their identity provider, by Identity.Groups, or told of by AdminProxy. Either it or Token is set.
	Group string
	// Issuer is the only one whose groups count: of Identity, or [ProxyIssuer]. Empty, which cannot be with several issuers, is whoever tells of them.
	Issuer string
	// Tenants are patterns of the tenants, with their teams, whose keys RoleKeys is about.
	Tenants []string
}

// Keys reports whether the role is about the keys of a tenant or team.
func (r *AdminRole) Keys(tenant string) bool {
	tenant = rootOf(tenant)
	return r.Role == RoleAdmin || r.Role == RoleKeys && slices.ContainsFunc(r.Tenants, func(p string) bool { return glob.Match(p, tenant) })
}

// AdminProxy is a proxy in front of the admin side which knows who calls. It must take its headers from clients.
type AdminProxy struct {
	// From are the networks in which it is. None leaves the headers without a meaning.
	From []netip.Prefix
	// User and Groups are the headers in which it names the user and, with commas between them, the groups of the user.
	User, Groups string
}

// ProxyIssuer is the AdminRole.Issuer of groups that the AdminProxy tells of.
const ProxyIssuer = "proxy"

const maxAdminRoles = 100

var adminRoleShape = shape[AdminRole]{
	Fields: []field[AdminRole]{
		{Name: "name", About: "Who it is, in the audit log.", Kind: strictyaml.NameKind, Read: func(v value, r *AdminRole) { r.Name = v.Named() }, Need: "write it"},
		{
			Name: "role", About: "view looks; keys makes and revokes keys of some tenants; operate looks, reloads, drains and overrides limits; admin does all.",
			Kind: adminRoles.kind(), Read: func(v value, r *AdminRole) { r.Role = adminRoles.read(v, "") }, Need: "write it",
		},
		{
			Name: "token", About: "What it presents. Best \"${NAME}\" or \"file:/run/secrets/name\".", Kind: strictyaml.TextKind(tokenPattern),
			Read: readRoleToken,
		},
		{
			Name: "group", About: "A group that its token of an identity provider names, or the proxy, instead of a token.", Kind: strictyaml.TextKind(`.`),
			Read: func(v value, r *AdminRole) { r.Group = readText(v) },
		},
		{
			Name: "issuer", About: "Who must tell of the group: an issuer of identity, or proxy. Required with several issuers. Left out, it is whoever does.",
			Kind: strictyaml.TextKind(`^(` + ProxyIssuer + `|https?://\S+)$`), Read: func(v value, r *AdminRole) { r.Issuer = readText(v) },
		},
		{
			Name: "tenants", About: "The tenants of the role keys, with their teams: names, or patterns such as team-*.",
			Kind: strictyaml.ListOf(strictyaml.NameKind, 1, true), Read: func(v value, r *AdminRole) { r.Tenants = v.Texts(value.Named) },
		},
	},
	Also: schema{
		"oneOf": []any{schema{"required": []any{"token"}}, schema{"required": []any{"group"}}},
		"if":    schema{"properties": schema{"role": schema{"const": string(RoleKeys)}}}, "then": schema{"required": []any{"tenants"}},
		"dependentRequired": schema{"issuer": []any{"group"}},
	},
}

var adminProxyShape = shape[AdminProxy]{
	Fields: []field[AdminProxy]{
		{
			Name: "from", About: "The networks in which it is, such as 10.1.0.0/16.", Read: readNetworks,
			Need: "write the networks in which the proxy is, or anybody could name a user",
			Kind: strictyaml.ListOf(strictyaml.TextKind(`^[0-9a-fA-F.:]+/[0-9]+$`), 1, true),
		},
		headerField("user", "The header in which it names the user.", func(p *AdminProxy) *string { return &p.User }),
		headerField("groups", "The header in which it names the user's groups, with commas between them.", func(p *AdminProxy) *string { return &p.Groups }),
	},
	Short: "from",
}

// proxyHeader matches the name of a header.
var proxyHeader = regexp.MustCompile(`^[A-Za-z0-9-]+$`)

func headerField(key, about string, at func(*AdminProxy) *string) field[AdminProxy] {
	return field[AdminProxy]{
		Name: key, About: about, Kind: strictyaml.TextKind(proxyHeader.String()),
		Read: func(v value, p *AdminProxy) {
			text := readText(v)
			if text != "" && !proxyHeader.MatchString(text) {
				v.Problem("%s is no name of a header; write one such as X-Forwarded-User", v.Say(text))
			}
			*at(p) = textproto.CanonicalMIMEHeaderKey(text)
		},
		Start: func(p *AdminProxy) any { return *at(p) },
	}
}

var defaultAdminProxy = AdminProxy{User: "X-Forwarded-User", Groups: "X-Forwarded-Groups"}

func readText(v value) string {
	text, ok := v.Scalar()
	if ok && text == "" {
		v.Problem("is empty; write it, or remove the key")
	}
	return text
}

func readRoleToken(v value, r *AdminRole) {
	text := readText(v)
	if _, complaint := parseToken(text); complaint != "" {
		v.Problem("value (not shown) %s", complaint)
	}
	r.Token = text
}

func readNetworks(v value, p *AdminProxy) {
	items, ok := v.Items()
	if ok && len(items) == 0 {
		v.Problem("is empty; write the proxy's network, or remove proxy")
	}
	for _, it := range items {
		text, ok := it.Scalar()
		if !ok {
			continue
		}
		network, err := netip.ParsePrefix(text)
		if err != nil {
			it.Problem("%s is no network; write one such as 10.1.0.0/16, or 10.1.2.3/32 for one address", it.Say(text))
		}
		p.From = append(p.From, network)
	}
}

func readAdminRoles(v value, c *configFile) {
	items, ok := v.Items()
	switch {
	case ok && len(items) == 0:
		v.Problem("is empty; write at least one, or remove roles")
	case len(items) > maxAdminRoles:
		v.Problem("lists %d roles; write at most %d", len(items), maxAdminRoles)
		return
	}
	for _, it := range items {
		var r AdminRole
		list, known := adminRoleShape.Read(it, &r)
		if !known {
			continue
		}
		has := func(key string) bool { return strictyaml.Has(list, key) }
		switch {
		case has("token") == has("group"):
			it.Problem("needs either a token or a group, by which its callers are known; write one of them")
		case has("token") && has("issuer"):
			it.Problem("has an issuer, which is for a group; remove it")
		case r.Role == RoleKeys && !has("tenants"):
			it.Problem("has the role keys of no tenant; write tenants: [acme], or [\"*\"] for all")
		case r.Role != RoleKeys && has("tenants"):
			it.Problem("has tenants, which are for the role keys alone; remove them")
		}
		c.roles = append(c.roles, r)
	}
}

// adminRoles checks that callers of the admin side can be told apart.
func (c *compiler) adminRoles() {
	admin := &c.cfg.Admin
	path := strictyaml.Child("admin", "roles")
	if token := strictyaml.Child("admin", "token"); len(admin.Roles) > 0 && admin.Token == "" && !c.r.Refused[token] {
		c.r.At(path, "give some callers less than all, but admin.token is empty, so everybody on this machine may do all; set admin.token")
	}
	grouped := false
	for i, r := range admin.Roles {
		at := strictyaml.Item(path, i)
		grouped = grouped || r.Group != ""
		same := func(o AdminRole) bool { return r.Token != "" && r.Token == o.Token }
		if same(AdminRole{Token: admin.Token}) || slices.ContainsFunc(admin.Roles[:i], same) {
			c.r.At(strictyaml.Child(at, "token"), "value (not shown) is also that of another role or of admin.token; give each its own")
		}
		if r.Group != "" && len(c.cfg.Identity.Issuers)+len(admin.Proxy.From) == 0 && !c.r.Refused["identity"] && !c.r.Refused[strictyaml.Child("admin", "proxy")] {
			c.r.At(strictyaml.Child(at, "group"), "nobody tells of groups; set identity or admin.proxy, or write a token instead")
		}
		c.roleIssuer(&r, at)
	}
	if len(admin.Proxy.From) > 0 && !grouped && !c.r.Refused[path] {
		c.r.At(strictyaml.Child("admin", "proxy"), "tells of groups that no role names; write admin.roles with a group")
	}
}

// roleIssuer checks that one issuer cannot give the role of a group that another one tells of.
func (c *compiler) roleIssuer(r *AdminRole, at string) {
	known := []string{}
	for _, i := range c.cfg.Identity.Issuers {
		known = append(known, i.Issuer)
	}
	several := len(known) > 1
	if len(c.cfg.Admin.Proxy.From) > 0 {
		known = append(known, ProxyIssuer)
	}
	switch {
	case r.Group == "" || len(known) == 0 || c.r.Refused["identity"] || c.r.Refused[strictyaml.Child("admin", "proxy")]:
	case r.Issuer == "" && several:
		c.r.At(strictyaml.Child(at, "group"), "%s may be told of by each issuer of identity, which could so give the role; write beside it issuer: %s", strictyaml.Show(r.Group), strings.Join(known, " or "))
	case r.Issuer != "" && !slices.Contains(known, r.Issuer):
		c.r.At(strictyaml.Child(at, "issuer"), "%s tells of no groups; write %s", strictyaml.Show(r.Issuer), strings.Join(known, " or "))
	}
}

// fromHere describes a proxy that whoever is on this machine can pass for.
func (c *compiler) fromHere() (list []string) {
	if c.cfg.Admin.TLS.ClientCA != "" {
		return nil
	}
	path := strictyaml.Child(strictyaml.Child("admin", "proxy"), "from")
	for i, n := range c.cfg.Admin.Proxy.From {
		if n.Overlaps(loopback4) || n.Overlaps(loopback6) {
			list = append(list, c.r.Describe(strictyaml.Item(path, i), "%s has loopback addresses, so every program on this machine, and a web page that is open on it, can name any "+
				"user and group; run the proxy elsewhere, such as in a container of its own, or set admin.tls.client_ca", n).String())
		}
	}
	return list
}

var loopback4, loopback6 = netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")
