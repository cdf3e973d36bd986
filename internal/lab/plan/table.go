package plan

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// Write writes the report for people.
func (r *Report) Write(w io.Writer) error {
	fmt.Fprintf(w, "%d calls of %d tenants in %s from %s. %s\n\n", r.Calls, len(r.Tenants),
		time.Duration(r.Seconds*float64(time.Second)).Round(time.Second), r.From.Format(time.RFC3339), r.worth())
	if err := r.writeLogs(w); err != nil {
		return err
	}
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(tw, "  TENANT\tCALLS\tADMITTED\tREFUSED\tNOW REFUSED\tNOW ADMITTED\tWAIT P50\tWAIT P99\tTOKENS\n")
	for _, t := range r.Tenants {
		b := &t.Before
		a := &t.After
		fmt.Fprintf(tw, "  %s\t%d\t%s\t%s\t%d\t%d\t%s\t%s\t%s\n", t.Tenant, t.Calls,
			both(b.Admitted, a.Admitted), both(b.Refused, a.Refused), t.NowRefused, t.NowAdmitted,
			arrow(seconds(b.WaitP50), seconds(a.WaitP50)), arrow(seconds(b.WaitP99), seconds(a.WaitP99)), both(b.Tokens, a.Tokens))
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(w, "\n%s\n", r.conclusion())
	for _, t := range r.Tenants {
		for _, by := range t.By {
			axis := by.Axis
			if axis == "" {
				axis = by.Reason
			}
			if _, err := fmt.Fprintf(w, "  %d of %s by %s of %s (%s)\n", by.Calls, t.Tenant, axis, by.Of, by.Reason); err != nil {
				return err
			}
		}
	}
	return nil
}

// worth is how far the log can be relied upon.
func (r *Report) worth() string {
	text := ""
	switch {
	case r.Shared:
		text = r.sharedWorth()
	case r.Exact:
		text = "Replayed under its own policy, the log reproduces every decision."
	case r.Late:
		text = fmt.Sprintf("The log's beginning is missing, so its first three minutes are taken as recorded; after them %d calls are decided differently under its own policy.", r.Differ)
	case r.LostLines > 0:
		text = fmt.Sprintf("%d lines of the log are missing; under its own policy %d calls are decided differently.", r.LostLines, r.Differ)
	default:
		text = fmt.Sprintf("Under its own policy %d calls are decided differently, and %d at another time or with other figures: the log is from another version of llmgov, or was changed.", r.Differ, r.Inexact)
	}
	if r.BudgetsFromZero {
		text += "\nEarlier usage of budgets is unknown: budgets start unused here, so this understates refusals."
	}
	if r.Reloads > 0 {
		text += fmt.Sprintf("\nThe policy was changed %d times; the candidate holds for all of it.", r.Reloads)
	}
	return text
}

// sharedWorth is worth where limits were shared.
func (r *Report) sharedWorth() string {
	gateways := "They went through one gateway that shares its limits through a store, and are"
	if n := len(r.Logs); n > 1 {
		gateways = fmt.Sprintf("They went through %d gateways that share their limits, and are", n)
	}
	again := r.Calls - r.Taken
	differ := r.Differ
	if r.Granted {
		differ = r.AsOne
	}
	text := fmt.Sprintf("%s decided here as if by one gateway, which is close but not exact: under the log's own policy %d of %d calls are decided as recorded.",
		gateways, again-differ, again)
	switch {
	case r.Exact:
		text += "\nEach log, replayed alone under its own policy and with what the store granted, reproduces every decision."
	case r.Granted:
		text += fmt.Sprintf("\nReplayed alone, with what the store granted, %d calls are decided differently, and %d at another time or with other figures.", r.Differ, r.Inexact)
	}
	if r.Late {
		text += fmt.Sprintf("\nThe beginning of a log is missing, so calls until %s are taken as recorded.", clockTime(r.KnownFrom))
	}
	if r.Alone > 0 {
		text += fmt.Sprintf("\n%d runs had no store: each is decided on its own.", r.Alone)
	}
	if r.LostLines > 0 {
		text += fmt.Sprintf("\n%d lines of the logs are missing.", r.LostLines)
	}
	for _, m := range r.Missing {
		text += fmt.Sprintf("\nThe log of %s, which shared the limits from %s to %s, is missing: without its calls this understates refusals.",
			m.Node, clockTime(m.From), clockTime(m.To))
	}
	if r.Unwatched && len(r.Logs) == 1 {
		text += "\nThe log does not say which other gateways shared the limits: if there were any, give their logs too, or this understates refusals."
	}
	return text
}

func clockTime(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// writeLogs writes the extent of each of several logs.
func (r *Report) writeLogs(w io.Writer) error {
	if len(r.Logs) < 2 {
		return nil
	}
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(tw, "  LOG\tNODE\tCALLS\tFROM\tTO\n")
	for i := range r.Logs {
		l := &r.Logs[i]
		apart := ""
		if l.Apart {
			apart = "\tno other log covers this time: is a clock wrong, or the log from another day?"
		}
		fmt.Fprintf(tw, "  %s\t%s\t%d\t%s\t%s%s\n", l.Path, strings.Join(l.Nodes, ", "), l.Calls, clockTime(l.From), clockTime(l.To), apart)
	}
	fmt.Fprintln(tw)
	return tw.Flush()
}

func (r *Report) conclusion() string {
	switch {
	case len(r.Flips) == 0:
		return "No decision would change."
	case r.NowRefused == 0:
		return fmt.Sprintf("No call that was admitted would be refused; %d that were not would be admitted.", r.NowAdmitted)
	}
	return fmt.Sprintf("%d calls that were admitted would be refused, and %d that were not would be admitted.", r.NowRefused, r.NowAdmitted)
}

func both[T int | int64](before, after T) string {
	return arrow(strconv.FormatInt(int64(before), 10), strconv.FormatInt(int64(after), 10))
}

func arrow(before, after string) string {
	if before == after {
		return before
	}
	return before + " → " + after
}

func seconds(s float64) string {
	if s == 0 {
		return "0s"
	}
	return strconv.FormatFloat(s, 'f', 3, 64) + "s"
}
