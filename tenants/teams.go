package tenants

import (
	"slices"
	"strconv"
	"strings"

	"github.com/llmgov/llmgov/internal/lib/strictyaml"
)

// teamsField makes a tenant, or a team, an inner node.
var teamsField = field[draft]{
	Name: "teams", About: "Its teams, by name, up to 16 deep. They divide its share, and all its limits apply to them too.",
	Kind: strictyaml.MapOf(tenantName, func() schema { return schema{"$ref": "#/$defs/team"} }, 1),
	Read: func(v value, t *draft) {
		list, ok := v.Pairs()
		if ok && len(list) == 0 {
			v.Problem("is empty; write at least one team with its keys, or remove the key")
		}
		t.teams = list
	},
}

// teamShape has the keys of a team.
var teamShape = shape[draft]{
	Fields: slices.Concat([]field[draft]{tierField}, ownFields, commonFields, []field[draft]{
		teamsField,
		{Name: "group", Read: func(v value, _ *draft) {
			v.Problem("only a tier can be a group; a team divides its share among its teams")
		}},
		{Name: "tenant_weight", Read: func(v value, _ *draft) { v.Problem("is for tenants of a group; a team has a weight") }},
	}),
	Also: keysOrTeams,
}

var keysOrTeams = schema{"anyOf": []any{schema{"required": []any{"keys"}}, schema{"required": []any{"teams"}}}}

func (f *policyFile) readTeam(parent *draft, e pair) {
	if f.r.Full() || f.crowded(e) {
		return
	}
	name := parent.Name + teamSep + e.Key
	if complaint := checkTeamPath(name); complaint != "" {
		f.r.Add(e.At, "team %s %s", strictyaml.Show(e.Key), complaint)
		return
	}
	checkTenantName(e)
	list, ok := e.Pairs()
	if !ok {
		return
	}
	t := parent.team()
	if strictyaml.Has(list, "tier") {
		t, _ = f.template(list)
		t.OwnTier = true
		if t.group {
			f.r.At(strictyaml.Child(e.Path, "tier"), "%s is a group, which divides a pool among tenants; name another tier", strictyaml.Show(t.Tier))
			t.group = false
		}
	}
	t.Name = name
	t.Source = e.At.String()
	teamShape.ReadPairs(list, &t)
	if priority := strictyaml.Child(e.Path, "priority"); parent.Background && !t.Background && !f.r.Refused[priority] {
		f.r.At(priority, "%s cannot hold below %s, which is background; remove it, or make that interactive", priorityOf(&t.Tenant), strictyaml.Show(parent.Name))
		t.Background = true
	}
	f.keep(&t)
}

// checkTeamPath complains about the path to a team.
func checkTeamPath(path string) string {
	if strings.Count(path, teamSep) > maxTeamDepth {
		return "is one level too deep; teams may stand in each other " + strconv.Itoa(maxTeamDepth) + " deep"
	}
	if len(path) > maxPath {
		return "has a name that is longer than " + strconv.Itoa(maxPath) + " bytes with those of its parents; shorten one"
	}
	return ""
}

// checkTenantName complains about the key itself, as the name of a tenant or a team.
func checkTenantName(p pair) {
	checkKeyName(p)
	if strings.Contains(p.Key, teamSep) {
		p.Report.Add(p.At, "name %s holds a slash; write it without", strictyaml.Show(p.Key))
	}
	if complaint := complainTilde(p.Key); complaint != "" {
		p.Report.Add(p.At, "name %s %s", strictyaml.Show(p.Key), complaint)
	}
}

// complainTilde complains about a name of a tenant or team that could be a member's.
func complainTilde(name string) string {
	if strings.HasPrefix(name, "~") {
		return "begins with ~, as names of members do; write it without"
	}
	return ""
}

// tree finds each tenant's place and its parent's. Names are sorted, so a parent stands before its teams.
func (c *compiler) tree() {
	c.parent = make([]bool, len(c.tenants))
	for i := range c.tenants {
		t := &c.tenants[i]
		t.Index = i
		t.Parent = -1
		cut := strings.LastIndex(t.Name, teamSep)
		if cut < 0 {
			continue
		}
		at, found := slices.BinarySearchFunc(c.tenants[:i], t.Name[:cut], func(o Tenant, name string) int { return strings.Compare(o.Name, name) })
		if found {
			t.Parent = at
			c.parent[at] = true
		}
	}
}

// inherit gives a team its parent's values; the parent has its own parent's already.
func (c *compiler) inherit(t, parent *Tenant) {
	t.Bounds = parent.Bounds
	switch {
	case t.Models == nil:
		t.Models = parent.Models
	case !slices.Contains(parent.Models, "*"):
		t.Bounds = append(slices.Clip(parent.Bounds), parent.Models)
	}
	if t.Routes == 0 {
		t.Routes = parent.Routes
	}
	refused := func(path string) bool { return c.r.Refused[path] }
	if extra := t.Routes &^ parent.Routes; extra != 0 && !slices.ContainsFunc(parent.paths("routes"), refused) {
		c.r.At(strictyaml.Child(t.path(), "routes"), "%s: its parent %s does not have them; grant them there too, or remove them", extra, strictyaml.Show(parent.Name))
	}
	if t.Upstreams == nil {
		t.Upstreams = parent.Upstreams
	}
	c.inheritTiers(t, parent)
	if t.DefaultPool == "" {
		t.DefaultPool = parent.DefaultPool
	}
	if most := parent.MaxOutputTokens; most > 0 && (t.MaxOutputTokens == 0 || t.MaxOutputTokens > most) {
		t.MaxOutputTokens = most
	}
	t.Background = t.Background || parent.Background
	t.Shadow = t.Shadow || parent.Shadow
}
