package plan

import (
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"
	"time"
)

// Write writes the report for people.
func (r *Report) Write(w io.Writer) error {
	fmt.Fprintf(w, "%d calls of %d tenants in %s from %s. %s\n\n", r.Calls, len(r.Tenants),
		time.Duration(r.Seconds*float64(time.Second)).Round(time.Second), r.From.Format(time.RFC3339), r.worth())
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(tw, "  TENANT\tCALLS\tADMITTED\tREFUSED\tNOW REFUSED\tNOW ADMITTED\tWAIT P50\tWAIT P99\tTOKENS\n")
	for _, t := range r.Tenants {
		b, a := &t.Before, &t.After
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
	case r.Exact:
		text = "By its own policy the log comes out as it was decided, call by call."
	case r.Late:
		text = fmt.Sprintf("The log's beginning is gone, so its first two minutes are taken as they were; behind them %d calls come out otherwise by its own policy.", r.Differ)
	case r.LostLines > 0:
		text = fmt.Sprintf("Of the log %d lines are lost: by its own policy %d calls come out otherwise.", r.LostLines, r.Differ)
	default:
		text = fmt.Sprintf("By its own policy %d calls come out otherwise than they were decided, and %d at another time or with other figures: this is another version of llmgov, or the log was changed.", r.Differ, r.Inexact)
	}
	if r.Reloads > 0 {
		text += fmt.Sprintf(" The policy was changed %d times; the candidate holds for all of it.", r.Reloads)
	}
	return text
}

func (r *Report) conclusion() string {
	switch {
	case len(r.Flips) == 0:
		return "Nothing would be decided otherwise."
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
