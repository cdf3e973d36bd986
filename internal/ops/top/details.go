package top

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/llmgov/llmgov/internal/ops/adminapi"
)

// poolScreen is one pool: its limits and state, and its tenants.
func poolScreen(name string, g Glyphs) *screen {
	return &screen{
		title: "pool " + name, sheet: tenantList(name, g), wants: wants{shares: true},
		above: func(d *Data, p *pen) []string {
			if pool := d.pool(name); pool != nil {
				return aboutPool(d, pool, p)
			}
			return []string{p.st.paint(warn, "The policy in force has no pool "+clean(name)+".")}
		},
	}
}

func aboutPool(d *Data, v *adminapi.Pool, p *pen) []string {
	lines := []string{clean(fmt.Sprintf("upstream %s; accounting %s; models %s", v.Upstream, v.Accounting, strings.Join(v.Models, " ")))}
	for _, a := range v.Limits {
		part := float64(a.Used) / float64(max(a.Limit, 1))
		name := a.Axis
		words := percent(part) + " " + whole(a.Used) + " of " + whole(a.Limit)
		if name == "concurrency" {
			name = "concurrent calls"
			if v.Adaptive != nil {
				words += fmt.Sprintf(", %s from %s to %s", v.Adaptive.Law, whole(v.Adaptive.Min), whole(v.Adaptive.Max))
			}
		}
		lines = append(lines, p.gauge(name, part, words))
	}
	for i := range v.Budgets {
		b := &v.Budgets[i]
		part := b.Used / max(b.Limit, 1e-9)
		words := percent(part) + " of " + strconv.FormatFloat(b.Limit, 'f', -1, 64) + " " + b.Unit + " a " + b.Per
		if b.Per != "life" {
			words += ", resets in " + span(b.ResetsAt.Sub(d.At).Seconds())
		}
		lines = append(lines, p.gauge("budget", part, words))
	}
	line := fmt.Sprintf("running %s  waiting %s", whole(v.Running), whole(int64(v.Waiting)))
	if v.Waiting > 0 {
		line += ", the oldest " + span(v.OldestWait)
	}
	f := &v.Fairness
	lines = append(lines, line, fmt.Sprintf("Jain %.3f, at most %s off; left unused while calls waited: %s tokens", f.Jain, percent(f.Deviation), whole(f.Unused)))
	lines = append(lines, p.st.paint(when(v.RateRatio < 1, bad), rateLine(d, v)))
	lines = append(lines, serverLines(v, p)...)
	if v.Sharing != nil {
		lines = append(lines, gatewayLines(d, v.Sharing, p)...)
	}
	return lines
}

// rateLine is the part of the rate in use, and the upstreams that reduce it.
func rateLine(d *Data, v *adminapi.Pool) string {
	line := "rate " + percent(v.RateRatio)
	if v.HeldUntil != nil {
		line = "held: no calls start for " + span(v.HeldUntil.Sub(d.At).Seconds())
	}
	up := 0
	var rest []string
	for i := range v.Upstreams {
		u := &v.Upstreams[i]
		if u.State == "up" {
			up++
			continue
		}
		text := u.Name + " " + u.State
		if u.Until != nil {
			text += " for " + span(u.Until.Sub(d.At).Seconds())
		}
		rest = append(rest, text)
	}
	line += fmt.Sprintf("; upstreams: %d of %d up", up, len(v.Upstreams))
	if len(rest) > 0 {
		line += ", " + strings.Join(rest, ", ")
	}
	return clean(line)
}

// storeLines are the states of each pool's sharing.
func storeLines(d *Data, p *pen) []string {
	var lines []string
	for i := range d.Pools {
		if s := d.Pools[i].Sharing; s != nil {
			lines = append(lines, p.st.paint(storeTone(s), clean("pool "+d.Pools[i].Name+": "+storeLine(s))))
		}
	}
	return lines
}

// storeLine is the last answer of the store, and its age.
func storeLine(s *adminapi.Sharing) string {
	line := fmt.Sprintf("store %s, epoch %d", storeOf(s), s.Epoch)
	if s.AnsweredSeconds >= 0 {
		line += ", answered " + span(max(s.AnsweredSeconds, 0.1)) + " ago"
	}
	if s.LearningSeconds > 0 {
		line += ", grants nothing for " + span(s.LearningSeconds) + ": " + s.Learning
	}
	if s.Error != "" {
		line += ": " + s.Error
	}
	return line
}

// gatewayLines are the state of the pool's sharing with other gateways, and the grant of this one.
func gatewayLines(d *Data, s *adminapi.Sharing, p *pen) []string {
	live := 0
	grant := "nothing"
	for _, n := range s.Nodes {
		if n.Live {
			live++
		}
		if n.Name == d.Node {
			tokens := whole(n.GrantTPM) + " tokens"
			if n.GrantITPM+n.GrantOTPM > 0 {
				tokens = whole(n.GrantITPM) + " input tokens, " + whole(n.GrantOTPM) + " output tokens"
			}
			grant = tokens + " and " + whole(n.GrantRPM) + " requests a minute"
		}
	}
	return []string{
		p.st.paint(storeTone(s), clean(storeLine(s))),
		fmt.Sprintf("granted here: %s; %d of %d gateways live", grant, live, len(s.Nodes)),
	}
}

// tenantScreen is one tenant: its part of each pool, and its leases.
func tenantScreen(name string, g Glyphs) *screen {
	return &screen{
		title: "tenant " + name, sheet: leaseList(name, g), wants: wants{shares: true, leases: true, members: name},
		above: func(d *Data, p *pen) []string {
			var lines []string
			for i := range d.Pools {
				for k := range d.Pools[i].Fairness.Tenants {
					if t := &d.Pools[i].Fairness.Tenants[k]; t.Name == name {
						lines = append(lines, aboutShare(&d.Pools[i], t, p)...)
					}
				}
			}
			if lines == nil {
				return []string{p.st.paint(warn, "No pool has a tenant "+clean(name)+" now.")}
			}
			return append(lines, memberLines(d.Members, p)...)
		},
	}
}

// memberLines are a tenant's heaviest members.
func memberLines(v *adminapi.Members, p *pen) []string {
	if v == nil {
		return nil
	}
	lines := []string{fmt.Sprintf("members %s, of which took the most in the last minute:", whole(int64(v.Total)))}
	for i := range v.Heaviest {
		m := &v.Heaviest[i]
		line := fmt.Sprintf("%6s tokens  %s  running %d", short(int64(m.Tokens)), clean(cmp.Or(m.Name, "(no name)")), m.Running)
		for _, b := range m.Budgets {
			line += fmt.Sprintf("  %s of its %s", percent(b.Used/max(b.Limit, 1e-9)), b.Name)
		}
		lines = append(lines, ansi.Truncate(line, p.width, ""))
	}
	return lines
}

func aboutShare(v *adminapi.Pool, t *adminapi.Share, p *pen) []string {
	queue := fmt.Sprintf("running %d  queue %d", t.Running, t.Queued)
	if t.Queued > 0 {
		queue += ", the first waits " + span(t.OldestWait)
	}
	books := "debt " + whole(t.Debt) + "  borrowed " + whole(t.Borrowed) + "  lent " + whole(t.Lent)
	last := []string{queue + "  " + books}
	if ansi.StringWidth(last[0]) > p.width {
		last = []string{queue, books}
	}
	weight := fmt.Sprintf("  weight %g", t.Weight)
	if t.Guaranteed > 0 { // it is measured
		weight += fmt.Sprintf(", which is %s by itself; asked for %s", percent(t.Guaranteed), percent(t.Demand))
	}
	return append([]string{
		p.st.paint(strong, clean("of pool "+v.Name)) + weight,
		p.gauge("entitled", t.Entitled, percent(t.Entitled)+" of the last minute"),
		p.gauge("received", t.Received, percent(t.Received)),
	}, last...)
}
