package report

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/llmgov/llmgov/tenants"
)

// Policy is the result of check for valid files, and the JSON of --json.
type Policy struct {
	OK     bool         `json:"ok"`
	Config string       `json:"config"`
	Policy string       `json:"policy"`
	Count  int          `json:"tenants"`
	Teams  int          `json:"teams"`
	Pools  []poolReport `json:"pools"`
	Notes  []string     `json:"notes"`
	tenant string       // the only one that is shown, with its teams; empty for all
}

type poolReport struct {
	Name     string `json:"name"`
	Upstream string `json:"upstream"`
	// Upstreams are those of Upstream, one by one.
	Upstreams []upstreamReport `json:"upstreams"`
	Models    []string         `json:"models"`
	// Aliases maps those of Models that have another name upstream to that name.
	Aliases map[string]string `json:"aliases,omitempty"`
	Limits  []tenants.Limit   `json:"limits"`
	// Usable is tpm less headroom; Floors is the sum of the tenants' floors.
	Usable  int64        `json:"usable_tpm,omitempty"`
	Floors  int64        `json:"floors_tpm,omitempty"`
	Tenants []rowsReport `json:"tenants"`
	pool    *tenants.Pool
}

// upstreamReport is one upstream of a pool.
type upstreamReport struct {
	Name   string `json:"name"`
	Weight int64  `json:"weight"`
	Order  int64  `json:"order,omitempty"`
	// Models are its own names of models.
	Models map[string]string `json:"models,omitempty"`
}

// rowsReport is one tenant in one pool.
type rowsReport struct {
	Name  string `json:"name"`
	Tier  string `json:"tier,omitempty"`
	Group string `json:"group,omitempty"`
	// Keys counts the keys from policy files and from the admin API.
	Keys int `json:"keys"`
	// Share is from 0 to 1, and TPM the same in tokens, while all tenants of the pool ask for more than they get.
	Share float64 `json:"share"`
	TPM   int64   `json:"share_tpm,omitempty"`
	// Whole is the share together with its teams', if it has any.
	Whole    float64         `json:"share_with_teams,omitempty"`
	WholeTPM int64           `json:"share_with_teams_tpm,omitempty"`
	Limits   []tenants.Limit `json:"limits"`
}

// New is the report on files that are valid, as of now: the config's name, and the policy that was read.
func New(config string, snap *tenants.Snapshot, now time.Time) *Policy {
	r := &Policy{OK: true, Config: config, Policy: snap.Hash(), Notes: []string{}}
	r.Count, r.Teams = count(snap)
	pools := snap.Pools()
	keys := keysOf(snap)
	seen := map[string]bool{}
	for i := range pools {
		p := &pools[i]
		pr := poolReport{
			Name: p.Name, Upstream: p.UpstreamNames(), Models: p.Models, Limits: snap.PoolLimits(p), Usable: p.UsableTPM(),
			Floors: snap.Floors(p), Tenants: []rowsReport{}, Aliases: map[string]string{}, pool: p,
		}
		for _, u := range p.Upstreams {
			pr.Upstreams = append(pr.Upstreams, upstreamReport{Name: u.Name, Weight: u.Weight, Order: u.Order, Models: u.Models})
		}
		for _, a := range p.Aliases {
			pr.Aliases[a.Name] = a.Model
		}
		for _, s := range snap.Shares(p) {
			pr.Tenants = append(pr.Tenants, newRows(snap, p, s, keys[s.Tenant.Name]))
			if s.Part < 1e-6 && keys[s.Tenant.Name] > 0 {
				r.Notes = append(r.Notes, "pool "+p.Name+": floors of others leave tenant "+s.Tenant.Name+" nothing while all ask; give it a floor too, or lower theirs")
			}
		}
		r.Pools = append(r.Pools, pr)
		r.unlimited(p)
		r.Notes = append(r.Notes, snap.WholeLimits(p)...)
		r.filled(snap, p, seen)
		r.agents(snap, p, seen)
		r.unreached(snap, p)
	}
	r.unused(snap)
	r.unexpected(snap)
	r.Notes = append(r.Notes, snap.Cautions()...)
	r.Notes = append(r.Notes, expiring(snap, now)...)
	r.Notes = append(r.Notes, keyless(snap)...)
	r.Notes = append(r.Notes, snap.KeyNotes()...)
	return r
}

// count is the number of tenants and of teams.
func count(snap *tenants.Snapshot) (list, teams int) {
	for _, t := range snap.Tenants() {
		if t.Parent < 0 {
			list++
		} else {
			teams++
		}
	}
	return list, teams
}

// Count says how many tenants and teams there are.
func Count(snap *tenants.Snapshot) string { return counted(count(snap)) }

func counted(list, teams int) string {
	text := fmt.Sprintf("tenants: %d", list)
	if teams > 0 {
		text += fmt.Sprintf(", teams: %d", teams)
	}
	return text
}

func newRows(snap *tenants.Snapshot, p *tenants.Pool, s tenants.Share, keys int) rowsReport {
	t := s.Tenant
	rows := rowsReport{Name: t.Name, Tier: t.Tier, Group: t.Group, Keys: keys, Share: millionths(s.Part), TPM: s.TPM, Limits: snap.Limits(t, p)}
	if s.Teams {
		rows.Whole = millionths(s.Whole)
		rows.WholeTPM = s.WholeTPM
	}
	return rows
}

func millionths(part float64) float64 { return math.Round(part*1e6) / 1e6 }

// unreached notes pools and models that no tenant may call.
func (r *Policy) unreached(snap *tenants.Snapshot, p *tenants.Pool) {
	list := snap.Uncalled(p)
	if len(list) == len(p.Models) {
		r.Notes = append(r.Notes, "pool "+p.Name+": no tenant that has a key may use it")
		return
	}
	for _, m := range list {
		r.Notes = append(r.Notes, "pool "+p.Name+": no tenant may call its model "+m)
	}
}

// unlimited notes a pool that has nothing to share.
func (r *Policy) unlimited(p *tenants.Pool) {
	if !p.Limited() {
		r.Notes = append(r.Notes, "pool "+p.Name+": has no limit, so there is nothing to share; set tpm, rpm, itpm, otpm or concurrency")
	}
}

// unused notes upstreams without a pool.
func (r *Policy) unused(snap *tenants.Snapshot) {
	for _, u := range snap.Config().Upstreams {
		if !slices.ContainsFunc(snap.Pools(), func(p tenants.Pool) bool {
			return slices.ContainsFunc(p.Upstreams, func(m tenants.PoolUpstream) bool { return m.Name == u.Name })
		}) {
			r.Notes = append(r.Notes, "upstream "+u.Name+": no pool uses it")
		}
	}
}

// Narrow reduces r to a tenant and its teams.
func (r *Policy) Narrow(tenant string) {
	for i := range r.Pools {
		p := &r.Pools[i]
		p.Tenants = slices.DeleteFunc(p.Tenants, func(t rowsReport) bool {
			return t.Name != tenant && !strings.HasPrefix(t.Name, tenant+"/")
		})
	}
	r.Pools = slices.DeleteFunc(r.Pools, func(p poolReport) bool { return len(p.Tenants) == 0 })
	r.Notes = []string{}
	r.tenant = tenant
}

// keysOf counts the valid and the expired keys of each tenant.
func keysOf(snap *tenants.Snapshot) map[string]int {
	n := map[string]int{}
	for _, k := range snap.Keys() {
		if k.Status == tenants.KeyOpens {
			n[k.Tenant]++
		}
	}
	return n
}

// unexpected notes pools that share limits between a number of gateways that nobody has told.
func (r *Policy) unexpected(snap *tenants.Snapshot) {
	if snap.Config().Store == "memory" {
		return
	}
	var names []string
	for _, p := range snap.Pools() {
		if p.ExpectNodes == 0 && p.Limited() {
			names = append(names, p.Name)
		}
	}
	if len(names) == 0 {
		return
	}
	r.Notes = append(r.Notes, "without expect_nodes, a store that is new or has lost data grants nothing for a minute (of slots, for 5 s), because other gateways may have used "+
		"the limits; set it to the number of gateways, such as expect_nodes: 1, or run llmgov store new before they start (pools without: "+strings.Join(names, ", ")+")")
}

// AtRuntime notes what operators have set over the files, of the tenants that are shown.
func (r *Policy) AtRuntime(set *tenants.AtRuntime) {
	of := func(name string) bool {
		return r.tenant == "" || strings.HasPrefix(name+"/", r.tenant+"/") || strings.HasPrefix(r.tenant, name+"/")
	}
	for _, t := range set.Tenants {
		if of(t.Tenant) {
			r.Notes = append(r.Notes, "tenant "+t.Tenant+" was set at run time by "+t.By+", in place of any that the files have"+because(t.Why))
		}
	}
	for _, o := range set.Overrides {
		if of(o.Tenant) {
			r.Notes = append(r.Notes, overridden(&o))
		}
	}
}

// overridden is a sentence about an override, without its point.
func overridden(o *tenants.Override) string {
	return o.Tenant + " has " + o.Limits() + ": " + o.String()
}

func because(why string) string {
	if why == "" {
		return ""
	}
	return " (" + why + ")"
}
