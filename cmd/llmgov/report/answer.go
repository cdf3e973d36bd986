package report

import (
	"cmp"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/llmgov/llmgov/governor/terms"
	"github.com/llmgov/llmgov/internal/ops/adminapi"
)

// Answer is the output of explain: from a gateway, or from the files alone.
type Answer struct {
	*adminapi.Explanation
	// Notes are printed below the table.
	Notes []string
}

// Note adds a note.
func (a *Answer) Note(format string, args ...any) {
	a.Notes = append(a.Notes, fmt.Sprintf(format, args...))
}

// Write prints the limits of the call, and the decision.
func (a *Answer) Write(w io.Writer) error {
	if a.Pool == "" { // refused before a pool was known
		_, err := fmt.Fprintln(w, a.conclusion())
		return err
	}
	fmt.Fprintf(w, "%s\n\n", a.title())
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	live := a.Decision != nil
	if live {
		fmt.Fprint(tw, "  LIMIT\tOF\tVALUE\tUSED\tASKED\tLEFT\tWAIT\tFROM\n")
	} else {
		fmt.Fprint(tw, "  LIMIT\tOF\tVALUE\tASKED\tFROM\n")
	}
	for i := range a.Limits {
		l := &a.Limits[i]
		fmt.Fprintf(tw, "  %s\t%s\t%s\t", l.Key, owner(l), valueOf(l))
		if live {
			fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t", amount(*l.Used), amount(l.Asked), amount(*l.Left), seconds(*l.Wait))
		} else {
			fmt.Fprintf(tw, "%s\t", amount(l.Asked))
		}
		fmt.Fprintf(tw, "%s\n", line(l.From))
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	if err := a.writeUpstreams(w); err != nil {
		return err
	}
	if live {
		fmt.Fprintf(w, "\n%s\n", a.conclusion())
		a.notePace()
	}
	for i := range a.Overrides {
		a.Note("%s.", overridden(&a.Overrides[i]))
	}
	for _, f := range a.Foreign {
		a.Note("%d %% of the %s of upstream %s is used by others with its key.", 100*f.Used/f.Limit, f.Key, f.Upstream)
	}
	if len(a.Notes) > 0 {
		fmt.Fprintln(w)
	}
	for _, n := range a.Notes {
		if _, err := fmt.Fprintln(w, "Note:", n); err != nil {
			return err
		}
	}
	return nil
}

// notePace explains why a pool that is not full refuses the call.
func (a *Answer) notePace() {
	d := a.Decision
	if a.WithoutShadow != nil {
		d = a.WithoutShadow
	}
	if d.Limit == nil {
		return
	}
	if l := &a.Limits[*d.Limit]; l.Kind == "pool" && *l.Left >= l.Asked && *l.Wait > 0 {
		a.Note("pool %s has room in its minute, but releases it at a steady rate, by weight, and in parts to gateways that share it: this call's turn comes later.", l.Pool)
	}
}

// title says which call is explained.
func (a *Answer) title() string {
	text := "Tenant " + a.Tenant
	if a.Member != "" {
		text += ", member " + a.Member
	}
	if a.Tier != "" {
		text += " (tier " + a.Tier + ")"
	}
	text += ", model " + a.Model
	if a.UpstreamModel != a.Model {
		text += " (" + a.UpstreamModel + ")"
	}
	text = fmt.Sprintf("%s in pool %s: %d tokens of input and %d of output, %s, waits at most %s.",
		text, a.Pool, a.Input, a.Output, a.Priority, time.Duration(a.MaxWait*float64(time.Second)))
	if a.TenantLimits != "" && a.TenantLimits != terms.LimitsLeased.String() {
		text += "\nWith a shared store, each call asks it for the tenant's limits (tenant_limits: " + a.TenantLimits + ")."
	}
	return text
}

// conclusion is the decision on the call now, in a sentence.
func (a *Answer) conclusion() string {
	if a.At != nil {
		return a.outcome()
	}
	if a.WithoutShadow == nil {
		return "It would " + a.would(a.Decision)
	}
	to := ""
	if a.Decision.Upstream != "" {
		to = ", and go to upstream " + a.Decision.Upstream
	}
	if a.WithoutShadow.Outcome == "admit" {
		return "It would be admitted now" + to + ", also without shadow."
	}
	return "It would be admitted now" + to + ", because of shadow. Without that it would " + a.would(a.WithoutShadow)
}

// outcome is the decision on a past call that was refused, or admitted only because of shadow.
func (a *Answer) outcome() string {
	d := a.Decision
	text := "was refused"
	if a.WithoutShadow != nil {
		d = a.WithoutShadow
		text = "was admitted because of shadow; it would have been refused"
	}
	text = "Request " + a.Request + " of " + a.Tenant + " " + text + " at " + a.At.Format(time.RFC3339)
	if a.Node != "" {
		text += " at gateway " + a.Node
	}
	if a.Waited > 0 {
		text += " after " + seconds(a.Waited)
	}
	if d.Limit != nil {
		l := &a.Limits[*d.Limit]
		text += " by " + l.Key + " of " + owner(l)
	}
	return fmt.Sprintf("%s, with %d %s: %s", text, d.Status, d.Code, d.Message)
}

func (a *Answer) would(d *adminapi.Decision) string {
	of := ""
	if d.Limit != nil {
		l := &a.Limits[*d.Limit]
		of = l.Key + " of " + owner(l)
	}
	switch d.Outcome {
	case "refuse":
		if of != "" {
			of = " by " + of
		}
		return fmt.Sprintf("be refused now%s, with %d %s: %s", of, d.Status, d.Code, d.Message)
	case "wait":
		return fmt.Sprintf("wait %s for %s, and then go.", seconds(d.Wait), cmp.Or(of, a.turn()))
	}
	if d.Upstream != "" {
		return "be admitted now, and go to upstream " + d.Upstream + "."
	}
	return "be admitted now."
}

// owner is the tenant or pool of a limit.
func owner(l *adminapi.ExplainedLimit) string {
	if l.Of == l.Pool && (l.Kind == "pool" || l.Kind == "budget") {
		return "pool " + l.Pool
	}
	return l.Of
}

func valueOf(l *adminapi.ExplainedLimit) string {
	if l.Kind == "budget" {
		return amount(l.Limit) + " " + l.Axis // such as tokens per day
	}
	if l.Most > 0 {
		if l.Room > 0 {
			return amount(l.Limit) + " (adaptive, up to " + amount(l.Most) + "; the servers have room for " + amount(l.Room) + ")"
		}
		return amount(l.Limit) + " (adaptive, up to " + amount(l.Most) + ")"
	}
	if strings.HasSuffix(l.Axis, " gcra") || strings.HasSuffix(l.Axis, " token_bucket") {
		return amount(l.Limit) + " at once of " + l.Axis // its burst
	}
	if strings.Contains(l.Axis, " per ") {
		return amount(l.Limit) + " " + l.Axis // such as tokens per 5h
	}
	return amount(l.Limit) + ofRules[l.Axis]
}

// ofRules are the calls that a limit by a rule of slots is of, by the name of the rule.
var ofRules = map[string]string{
	"background": " background calls",
	"soft_cap":   " calls of one tenant",
	"per_tenant": " calls of a tenant whose recent calls failed",
	"hold_back":  " calls beside its own priority",
}

func amount(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }

// seconds is a wait for people, rounded up.
func seconds(s float64) string {
	d := time.Duration(s * float64(time.Second))
	switch {
	case d <= 0:
		return "-"
	case d < 10*time.Second:
		return strconv.FormatFloat((d+100*time.Millisecond-1).Truncate(100*time.Millisecond).Seconds(), 'f', 1, 64) + "s"
	case d < 2*time.Minute:
		return strconv.Itoa(int((d+time.Second-1)/time.Second)) + "s"
	}
	return (d + time.Second - 1).Truncate(time.Second).String()
}
