package tenants

import (
	"slices"
	"strconv"
	"strings"
)

// teamSep stands between the names that lead to a team: "acme/search".
const teamSep = "/"

// teamsField is what makes a tenant, or a team, an inner node.
var teamsField = field[draft]{
	name: "teams", about: "Its teams, by name, up to 16 deep. They divide its share, and all its limits apply to them too.",
	kind: mapOf(tenantName, func() schema { return schema{"$ref": "#/$defs/team"} }, 1),
	read: func(v value, t *draft) {
		list, ok := v.pairs()
		if ok && len(list) == 0 {
			v.problem("is empty; write at least one team with its keys, or remove the key")
		}
		t.teams = list
	},
}

// teamShape is what a team may say.
var teamShape = shape[draft]{
	fields: slices.Concat(ownFields, commonFields, []field[draft]{
		teamsField,
		{name: "tier", read: func(v value, _ *draft) { v.problem("a team has no tier; write what it should have itself") }},
		{name: "group", read: func(v value, _ *draft) {
			v.problem("only a tier can be a group; a team divides its share among its teams")
		}},
		{name: "tenant_weight", read: func(v value, _ *draft) { v.problem("is for tenants of a group; a team has a weight") }},
	}),
	also: keysOrTeams,
}

var keysOrTeams = schema{"anyOf": []any{schema{"required": []any{"keys"}}, schema{"required": []any{"teams"}}}}

// team is what a team of d starts from. What else it has from its parent is found in the end, when that is known
// (inherit); of these three, nothing would tell that they were said.
func (d *draft) team() draft {
	t := newDraft(d.terms)
	t.Tier = d.Tier
	t.MaxWait = d.MaxWait
	t.Background = d.Background
	t.Credit = d.Credit
	return t
}

// keep adds a finished draft and reads its teams.
func (p *policy) keep(d *draft) {
	p.tenants = append(p.tenants, d.tenant())
	for _, e := range d.teams {
		p.readTeam(d, e)
	}
}

func (p *policy) readTeam(parent *draft, e pair) {
	if p.r.full() || p.crowded(e) {
		return
	}
	name := parent.Name + teamSep + e.key
	if complaint := checkTeamPath(name); complaint != "" {
		p.r.add(e.at, "team %s %s", show(e.key), complaint)
		return
	}
	e.checkTenantName()
	list, ok := e.pairs()
	if !ok {
		return
	}
	t := parent.team()
	t.Name = name
	t.Source = e.at.String()
	readPairs(list, teamShape, &t)
	if priority := child(e.path, "priority"); parent.Background && !t.Background && !p.r.refused[priority] {
		p.r.at(priority, "interactive cannot hold below %s, which is background; remove it, or make that interactive", show(parent.Name))
		t.Background = true
	}
	p.keep(&t)
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
func (p pair) checkTenantName() {
	p.checkName()
	if strings.Contains(p.key, teamSep) {
		p.r.add(p.at, "name %s holds a slash; write it without", show(p.key))
	}
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

// inherit gives a team what it has from its parent, which has what it has from its own already.
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
	refused := func(path string) bool { return c.r.refused[path] }
	if extra := t.Routes &^ parent.Routes; extra != 0 && !slices.ContainsFunc(parent.paths("routes"), refused) {
		c.r.at(child(t.path(), "routes"), "%s: its parent %s does not have them; grant them there too, or remove them", extra, show(parent.Name))
	}
	if t.DefaultPool == "" {
		t.DefaultPool = parent.DefaultPool
	}
	if most := parent.MaxOutputTokens; most > 0 && (t.MaxOutputTokens == 0 || t.MaxOutputTokens > most) {
		t.MaxOutputTokens = most
	}
	t.Background = t.Background || parent.Background
	t.Shadow = t.Shadow || parent.Shadow
}
