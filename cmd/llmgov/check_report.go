package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/llmgov/llmgov/tenants"
)

// report is what check says of files that are good; its JSON is what --json prints.
type report struct {
	OK     bool         `json:"ok"`
	Config string       `json:"config"`
	Policy string       `json:"policy"`
	Count  int          `json:"tenants"`
	Teams  int          `json:"teams"`
	Pools  []poolReport `json:"pools"`
	Notes  []string     `json:"notes"`
}

type poolReport struct {
	Name     string   `json:"name"`
	Upstream string   `json:"upstream"`
	Models   []string `json:"models"`
	// Aliases lead from those of Models that have another name upstream to that.
	Aliases map[string]string `json:"aliases,omitempty"`
	Limits  []tenants.Limit   `json:"limits"`
	// Usable is tpm less headroom; Floors is what tenants have of it in any case.
	Usable  int64        `json:"usable_tpm,omitempty"`
	Floors  int64        `json:"floors_tpm,omitempty"`
	Tenants []rowsReport `json:"tenants"`
}

// rowsReport is one tenant in one pool.
type rowsReport struct {
	Name  string `json:"name"`
	Tier  string `json:"tier,omitempty"`
	Group string `json:"group,omitempty"`
	// Keys are those that open something, from policy files and made at run time.
	Keys int `json:"keys"`
	// Share is from 0 to 1, and TPM that in tokens, while all tenants of the pool ask for more than they get.
	Share float64 `json:"share"`
	TPM   int64   `json:"share_tpm,omitempty"`
	// Whole is the share with that of its teams, for who has any.
	Whole    float64         `json:"share_with_teams,omitempty"`
	WholeTPM int64           `json:"share_with_teams_tpm,omitempty"`
	Limits   []tenants.Limit `json:"limits"`
}

func newReport(config string, snap *tenants.Snapshot, now time.Time) *report {
	r := &report{OK: true, Config: config, Policy: snap.Hash(), Notes: []string{}}
	for _, t := range snap.Tenants() {
		if t.Parent < 0 {
			r.Count++
		} else {
			r.Teams++
		}
	}
	pools, keys := snap.Pools(), keysOf(snap)
	for i := range pools {
		p := &pools[i]
		pr := poolReport{
			Name: p.Name, Upstream: p.UpstreamNames(), Models: p.Models, Limits: snap.PoolLimits(p), Usable: p.UsableTPM(),
			Floors: snap.Floors(p), Tenants: []rowsReport{}, Aliases: map[string]string{},
		}
		for _, a := range p.Aliases {
			pr.Aliases[a.Name] = a.Model
		}
		for _, s := range snap.Shares(p) {
			pr.Tenants = append(pr.Tenants, newRows(snap, p, s, keys[s.Tenant.Name]))
			if s.Part < 1e-6 && keys[s.Tenant.Name] > 0 {
				r.Notes = append(r.Notes, "pool "+p.Name+": floors of others leave tenant "+s.Tenant.Name+" nothing while all ask; give it one too, or lower theirs")
			}
		}
		r.Pools = append(r.Pools, pr)
		r.unlimited(p)
		r.unreached(snap, p)
	}
	r.unused(snap)
	r.Notes = append(r.Notes, snap.Cautions()...)
	r.keys(snap, now)
	r.keyless(snap)
	r.Notes = append(r.Notes, snap.KeyNotes()...)
	return r
}

func newRows(snap *tenants.Snapshot, p *tenants.Pool, s tenants.Share, keys int) rowsReport {
	t := s.Tenant
	rows := rowsReport{Name: t.Name, Tier: t.Tier, Group: t.Group, Keys: keys, Share: millionths(s.Part), TPM: s.TPM, Limits: snap.Limits(t, p)}
	if s.Teams {
		rows.Whole, rows.WholeTPM = millionths(s.Whole), s.WholeTPM
	}
	return rows
}

func millionths(part float64) float64 { return math.Round(part*1e6) / 1e6 }

// unreached notes what no tenant may call.
func (r *report) unreached(snap *tenants.Snapshot, p *tenants.Pool) {
	list := snap.Uncalled(p)
	if len(list) == len(p.Models) {
		r.Notes = append(r.Notes, "pool "+p.Name+": no tenant may use it")
		return
	}
	for _, m := range list {
		r.Notes = append(r.Notes, "pool "+p.Name+": no tenant may call its model "+m)
	}
}

// unlimited notes a pool that shares nothing out.
func (r *report) unlimited(p *tenants.Pool) {
	if p.TPM == 0 && p.RPM == 0 && p.Concurrency == 0 {
		r.Notes = append(r.Notes, "pool "+p.Name+": has no limit, so nothing of it is shared out; set tpm, rpm or concurrency")
	}
}

// unused notes upstreams that no pool leads to.
func (r *report) unused(snap *tenants.Snapshot) {
	for _, u := range snap.Config().Upstreams {
		if !slices.ContainsFunc(snap.Pools(), func(p tenants.Pool) bool {
			return slices.ContainsFunc(p.Upstreams, func(m tenants.PoolUpstream) bool { return m.Name == u.Name })
		}) {
			r.Notes = append(r.Notes, "upstream "+u.Name+": no pool uses it")
		}
	}
}

func (r *report) write(w io.Writer) error {
	fmt.Fprintf(w, "%s is good. Pools: %d, tenants: %d", r.Config, len(r.Pools), r.Count)
	if r.Teams > 0 {
		fmt.Fprintf(w, ", teams: %d", r.Teams)
	}
	fmt.Fprintln(w)
	for _, p := range r.Pools {
		upstream := "upstream"
		if strings.Contains(p.Upstream, ", ") {
			upstream = "upstreams"
		}
		fmt.Fprintf(w, "\nPool %s, %s %s, models %s\n\n", p.Name, upstream, p.Upstream, strings.Join(p.models(), ", "))
		tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		p.write(tw)
		if err := tw.Flush(); err != nil {
			return err
		}
	}
	if len(r.Notes) > 0 {
		fmt.Fprintln(w)
	}
	for _, n := range r.Notes {
		if _, err := fmt.Fprintln(w, "Note:", n); err != nil {
			return err
		}
	}
	return nil
}

// models are the pool's entries, aliases with what they lead to.
func (p poolReport) models() []string {
	list := slices.Clone(p.Models)
	for i, m := range list {
		if real, ok := p.Aliases[m]; ok {
			list[i] = m + " (" + real + ")"
		}
	}
	return list
}

func (p poolReport) write(w io.Writer) {
	fmt.Fprint(w, "  TENANT\tTIER\tSHARE\tTOKENS/MIN\tLIMIT\tVALUE\tFROM\n")
	name, tpm := "(the pool)", "-"
	if p.Usable > 0 {
		tpm = fmt.Sprint(p.Usable)
	}
	share := "100 %"
	for _, l := range p.Limits {
		fmt.Fprintf(w, "  %s\t\t%s\t%s\t%s\t%v\t%s\n", name, share, tpm, l.Key, l.Value, line(l.From))
		name, share, tpm = "", "", ""
	}
	if p.Usable > 0 && p.Floors > 0 {
		fmt.Fprintf(w, "  \t\t\t\tfloors in all\t%d of %d\tall its tenants\n", p.Floors, p.Usable)
	}
	for _, t := range p.Tenants {
		p.writeTenant(w, t)
	}
}

func (p poolReport) writeTenant(w io.Writer, t rowsReport) {
	name, tier, share, tpm := t.Name, t.Tier, fmt.Sprintf("%.2f %%", t.Share*100), "-"
	if tier == "" {
		tier = "-"
	}
	if p.Usable > 0 {
		tpm = fmt.Sprint(t.TPM)
	}
	if t.Keys == 0 { // only its teams call
		share, tpm = "-", "-"
	}
	if t.Whole > 0 {
		fmt.Fprintf(w, "  %s\t%s\t%s\t%s\twith its teams\t%s\tall its keys\n", name, tier, share, tpm, p.whole(t))
		name, tier, share, tpm = "", "", "", ""
	}
	for _, l := range t.Limits {
		fmt.Fprintf(w, "  %s\t%s\t%s\t%s\t%s\t%v\t%s\n", name, tier, share, tpm, l.Key, p.bounded(l), line(l.From))
		name, tier, share, tpm = "", "", "", ""
	}
}

// whole is what a tenant and its teams have together.
func (p poolReport) whole(t rowsReport) string {
	text := fmt.Sprintf("%.2f %%", t.Whole*100)
	if p.Usable > 0 {
		text += fmt.Sprintf(", %d", t.WholeTPM)
	}
	return text
}

// bounded is a tenant's limit, whose it is when it is a parent's, and that the pool has less where it does.
func (p poolReport) bounded(l tenants.Limit) string {
	text := fmt.Sprint(l.Value)
	if l.Of != "" {
		text += " (of " + l.Of + ")"
	}
	own, isNumber := l.Value.(json.Number)
	if !isNumber {
		return text
	}
	n, err := own.Int64()
	if err != nil {
		return text
	}
	for _, of := range p.Limits {
		if has, ok := of.Value.(json.Number); ok && of.Key == strings.TrimPrefix(l.Key, "pools."+p.Name+".") {
			if most, err := has.Int64(); err == nil && most < n {
				return fmt.Sprintf("%s (the pool has %d)", text, most)
			}
		}
	}
	return text
}

// line is a place without its column.
func line(from string) string {
	if from == "" {
		return "default"
	}
	return from[:strings.LastIndexByte(from, ':')]
}
