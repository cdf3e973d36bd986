package tenants

import (
	"cmp"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/llmgov/llmgov/internal/lib/strictyaml"
)

// maxPatterns bounds the work of comparing the pools' patterns with each other.
const maxPatterns = 10_000

// Build makes a Snapshot from values instead of files: the same checks, the same result. Its arguments are copied.
// The error is [Problems], without places. Lay environment and flags over cfg first, with [Overlay].
func Build(cfg Config, list []Tenant) (*Snapshot, error) {
	r := strictyaml.NewReport()
	cfg.Policies = slices.Clone(cfg.Policies)
	cfg.Upstreams = slices.Clone(cfg.Upstreams)
	cfg.Pools = slices.Clone(cfg.Pools)
	cfg.Prices = append([]ModelPrice(nil), cfg.Prices...) // none is nil, as from files
	for i := range cfg.Prices {
		cfg.Prices[i].Price = *cfg.Prices[i].Price.Clone()
	}
	cfg.Listed = append([]ModelPrice(nil), cfg.Listed...)
	cfg.Timezone = cmp.Or(cfg.Timezone, "UTC")
	for i := range cfg.Pools {
		p := &cfg.Pools[i]
		p.Upstreams = append([]PoolUpstream(nil), p.Upstreams...)
		for j := range p.Upstreams {
			p.Upstreams[j].Models = maps.Clone(p.Upstreams[j].Models)
			p.Upstreams[j].Price = p.Upstreams[j].Price.Clone()
		}
		p.Models = slices.Clone(p.Models)
		p.Budgets = append([]Budget(nil), p.Budgets...)
		p.Aliases = append([]Alias(nil), p.Aliases...)
		p.Headers = append([]Header(nil), p.Headers...)
		for _, a := range p.Aliases {
			if !slices.Contains(p.Models, a.Name) {
				p.Models = append(p.Models, a.Name)
			}
		}
		p.fill()
	}
	list = slices.Clone(list)
	for i := range list {
		t := &list[i]
		t.Keys = slices.Clone(t.Keys)
		t.Models = slices.Clone(t.Models)
		t.Budgets = append([]Budget(nil), t.Budgets...)
		t.Windows = slices.Clone(t.Windows)
		t.Upstreams = slices.Clone(t.Upstreams)
		t.Members = t.Members.clone()
		t.Pools = append([]PoolLimits(nil), t.Pools...)
		for j := range t.Pools {
			t.Pools[j].Windows = slices.Clone(t.Pools[j].Windows)
		}
		sortPoolLimits(t.Pools)
		t.Bounds = nil
		t.Weight = cmp.Or(t.Weight, defaultWeight)
		if t.Group != "" {
			t.GroupWeight = cmp.Or(t.GroupWeight, defaultWeight)
		}
	}
	verify(r, &cfg, list)
	return compile(r, cfg, list, nil)
}

// compile checks how the parts fit together and freezes them. It owns its arguments. The digests of what becomes of tenants are kept in sums, unless
// that is nil, and found there if they are known.
func compile(r *report, cfg Config, list []Tenant, sums []*sum) (*Snapshot, error) {
	slices.SortFunc(cfg.Upstreams, func(a, b Upstream) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(cfg.Pools, func(a, b Pool) int { return strings.Compare(a.Name, b.Name) })
	for i := range list {
		if sums == nil { // else the files' order is known
			list[i].Order = i
		}
	}
	slices.SortFunc(list, func(a, b Tenant) int { return strings.Compare(a.Name, b.Name) })
	c := compiler{r: r, cfg: &cfg, tenants: list, reached: map[string][]int{}, said: map[string]bool{}}
	c.tree()
	c.listeners()
	c.bodyMemory()
	c.upstreams()
	c.pools()
	c.models()
	c.prices()
	c.tenantList()
	c.identity()
	c.floors()
	c.priorities()
	c.usdBudgets()
	if err := r.Err(); err != nil {
		return nil, err
	}
	s := newSnapshot(cfg, list, c.byKey, sums)
	s.scopes = c.scopes
	s.unwise = slices.Concat(c.idleEngines(), c.idleFollows(), c.misplaced(), c.fromHere())
	s.origins = newOrigins(r)
	return s, nil
}

// listener is the address of a listener, by its key.
type listener struct{ key, at string }

func (l listener) path() string { return strings.ReplaceAll(l.key, ".", strictyaml.PathSep) }

func (c *compiler) listeners() {
	data := listener{"listen", c.cfg.Listen}
	admin := listener{"admin.listen", c.cfg.Admin.Listen}
	admission := listener{"admission.listen", c.cfg.Admission.Listen}
	c.guarded(admin, "admin.token", c.cfg.Admin.Token)
	c.adminRoles()
	c.distinct(data, admin)
	if admission.at == "" {
		return
	}
	c.guarded(admission, "admission.token", c.cfg.Admission.Token)
	c.distinct(data, admission)
	c.distinct(admin, admission)
}

// guarded checks that a listener that other machines can reach has a token.
func (c *compiler) guarded(l listener, key, token string) {
	if loopback(l.at) || token != "" || c.r.Refused[strings.ReplaceAll(key, ".", strictyaml.PathSep)] {
		return
	}
	c.r.At(l.path(), "%s is not loopback and %s is empty; set %s, or listen on 127.0.0.1", c.r.Shown(l.path(), l.at), key, key)
}

// distinct checks that two listeners have different addresses.
func (c *compiler) distinct(one, other listener) {
	if one.at != other.at || strings.HasSuffix(one.at, ":0") {
		return
	}
	path := other.path()
	if _, chosen := c.r.Places[path]; !chosen {
		path = one.path() // the other one is a default
	}
	c.r.At(path, "%s and %s are both %s; give each its own port", one.key, other.key, c.r.Shown(other.path(), other.at))
}

// bodyMemory checks that the largest body fits into a tenant's memory, and that no tenant can take all there is.
func (c *compiler) bodyMemory() {
	m := c.cfg.BodyMemory
	process := strictyaml.Child("body_memory", "process")
	tenant := strictyaml.Child("body_memory", "tenant")
	if m.Tenant < c.cfg.MaxBody {
		c.r.At(tenant, "%s bytes are less than max_body (%s), so the largest bodies could never be read; raise it, or lower max_body",
			c.r.ShownNumber(tenant, m.Tenant), c.r.ShownNumber("max_body", c.cfg.MaxBody))
	}
	if m.Process/2 < m.Tenant {
		c.r.At(process, "%s bytes are less than twice body_memory.tenant (%s), so one tenant could keep all others out; raise it, or lower that",
			c.r.ShownNumber(process, m.Process), c.r.ShownNumber(tenant, m.Tenant))
	}
}

// loopback reports whether only this machine can reach a listener.
func loopback(listen string) bool {
	host, _, err := net.SplitHostPort(listen)
	if err != nil || host == "localhost" {
		return true // a text that is no address has its own problem
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().IsLoopback()
}

func (c *compiler) upstreams() {
	if c.missing("upstreams", len(c.cfg.Upstreams)) {
		c.r.At("upstreams", "is missing; write at least one upstream with its base_url")
	}
	for i := range c.cfg.Upstreams {
		u := &c.cfg.Upstreams[i]
		path := strictyaml.Child("upstreams", u.Name)
		if u.BaseURL == "" {
			c.r.At(path, "has no base_url; "+needBaseURL)
		}
		if complaint := u.LimitsAPI.complain(cmp.Or(u.Kind, OpenAI)); complaint != "" && !c.r.Refused[strictyaml.Child(path, "limits_api")] {
			c.r.At(strictyaml.Child(path, "limits_api"), "%s", complaint)
		}
		if u.Engine.SendKey && u.APIKey == "" && !c.r.Refused[strictyaml.Child(path, "api_key")] {
			c.r.At(strictyaml.Child(strictyaml.Child(path, "engine"), "send_key"), "there is no api_key to send; set the upstream's api_key, or remove send_key")
		}
	}
}

func (c *compiler) pools() {
	if c.missing("pools", len(c.cfg.Pools)) {
		c.r.At("pools", "is missing; write at least one pool with its models and a limit")
	}
	for i := range c.cfg.Pools {
		p := &c.cfg.Pools[i]
		p.Index = i
		sortAliases(p.Aliases)
		sortHeaders(p.Headers)
		path := strictyaml.Child("pools", p.Name)
		if len(p.Models) == 0 {
			c.r.At(strictyaml.Child(path, "models"), "lists no model; write names or patterns, such as [gpt-4o]")
		}
		c.poolUpstreams(p, path)
		c.upstreamLimits(p, path)
		c.ranges(p, path)
		if nodes := strictyaml.Child(path, "expect_nodes"); p.ExpectNodes > 0 && c.cfg.Store == "memory" && !c.r.Refused["store"] && !c.r.Refused[nodes] {
			c.r.At(nodes, "%s gateways share nothing with store: memory; set store, or remove it", c.r.ShownNumber(nodes, int64(p.ExpectNodes)))
		}
	}
	c.cfg.DefaultPool = c.defaultPool("default_pool", c.cfg.DefaultPool)
	if c.cfg.DefaultPool == "" && len(c.cfg.Pools) == 1 {
		c.cfg.DefaultPool = c.cfg.Pools[0].Name
	}
}

// defaultPool checks that the pool named at path exists.
func (c *compiler) defaultPool(path, name string) string {
	if name == "" || name == strictyaml.Unreadable || len(c.cfg.Pools) == 0 {
		return name
	}
	if names := poolNames(c.cfg.Pools); !slices.Contains(names, name) {
		c.r.At(path, "there is no pool %s; %s", c.r.Shown(path, name), strictyaml.Advise(name, names))
	}
	return name
}
