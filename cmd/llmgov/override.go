package main

import (
	"fmt"
	"net/http"
	neturl "net/url"
	"slices"
	"strings"
	"time"

	"github.com/llmgov/llmgov/cmd/llmgov/report"
	"github.com/llmgov/llmgov/internal/ops/adminapi"
	"github.com/llmgov/llmgov/tenants"
)

type overrideCmd struct {
	Tenant      string   `arg:"" optional:"" help:"The tenant, a team by its path, such as acme/search, or a member, such as acme/~ann."`
	RPM         *int64   `name:"rpm" placeholder:"N" help:"Requests a minute. With 0 here or below none of its calls passes."`
	TPM         *int64   `name:"tpm" placeholder:"N" help:"Tokens a minute."`
	ITPM        *int64   `name:"itpm" placeholder:"N" help:"Input tokens a minute."`
	OTPM        *int64   `name:"otpm" placeholder:"N" help:"Output tokens a minute."`
	Concurrency *int64   `placeholder:"N" help:"Calls at once."`
	Pool        string   `placeholder:"NAME" help:"The limits above are those in one pool."`
	Weight      *float64 `placeholder:"N" help:"Claim on a contended pool."`
	Budget      []string `sep:"none" placeholder:"TEXT" help:"In place of all its budgets, such as \"500000 tokens per day\" or \"20 usd per month\"; once or more."`
	Until       string   `placeholder:"WHEN" help:"Its end: a day (friday, 2027-01-31), at whose end it is over, a time (2027-01-31T18:00:00Z), or a duration (2h). Left out, it stays until it is cleared."`
	Why         string   `placeholder:"TEXT" help:"The reason, for those who find it."`
	Clear       bool     `help:"Have the limits of the files again."`
	List        bool     `help:"List all overrides."`
	asking
	JSON bool `name:"json" help:"With --list, print one JSON object instead of a table."`
}

func (overrideCmd) Help() string {
	return `Example: llmgov override acme --tpm 500000 --until friday --why launch
         llmgov override acme/~ann --budget "50000 tokens per day" --why intern
         llmgov override --list
         llmgov override acme --clear`
}

func (c overrideCmd) Run(e *env) error {
	asked := tenants.Override{RPM: c.RPM, TPM: c.TPM, ITPM: c.ITPM, OTPM: c.OTPM, Concurrency: c.Concurrency, Why: c.Why}
	if c.Pool != "" {
		var in []string
		if all := asked.Limits(); all != "-" {
			for limit := range strings.SplitSeq(all, ", ") {
				in = append(in, limit+" in "+c.Pool)
			}
		}
		asked = tenants.Override{Pools: in, Why: c.Why}
	}
	asked.Weight = c.Weight
	asked.Budgets = c.Budget
	sets := asked.Limits() != "-" || c.Until != "" || c.Why != ""
	switch {
	case c.List && (sets || c.Clear || c.Tenant != ""), c.Clear && sets:
		return &usageError{"--list and --clear stand alone, --clear with a tenant"}
	case c.List:
		return c.list(e)
	case c.Tenant == "":
		return &usageError{"name the tenant whose limits to override, or --list all overrides"}
	}
	path := "/api/v1/overrides/" + neturl.PathEscape(c.Tenant)
	if c.Clear {
		if _, err := c.ask(e, http.MethodDelete, path, nil, nil); err != nil {
			return err
		}
		_, err := fmt.Fprintf(e.stdout, "%s has the limits of the files.\n", c.Tenant)
		return err
	}
	if asked.Limits() == "-" || c.Why == "" {
		return &usageError{"say which limit to replace, and why: llmgov override " + c.Tenant + " --tpm 500000 --until friday --why launch"}
	}
	var err error
	if asked.Until, err = untilOf(c.Until, time.Now()); err != nil {
		return err
	}
	var made tenants.Override
	if _, err := c.ask(e, http.MethodPut, path, asked, &made); err != nil {
		return err
	}
	_, err = fmt.Fprintf(e.stdout, "%s has %s %s.\n", made.Tenant, made.Limits(), ending(made.Until))
	return err
}

func (c overrideCmd) list(e *env) error {
	var all adminapi.OverrideList
	if _, err := c.ask(e, http.MethodGet, "/api/v1/overrides", nil, &all); err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(e, all)
	}
	rows := [][]string{{"TENANT", "LIMITS", "UNTIL", "BY", "MADE", "WHY"}}
	for i := range all.Overrides {
		o := &all.Overrides[i]
		rows = append(rows, []string{o.Tenant, o.Limits(), moment(o.Until), o.By, moment(&o.Made), o.Why})
	}
	_, err := fmt.Fprint(e.stdout, report.Aligned(rows))
	return err
}

func ending(at *time.Time) string {
	if at == nil {
		return "until that is cleared"
	}
	return "until " + moment(at)
}

// untilOf is the end that a text names; nil for none. Days are those of this machine's zone.
func untilOf(text string, now time.Time) (*time.Time, error) {
	if text == "" {
		return nil, nil
	}
	weekdays := []string{"sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"}
	end, err := time.Parse(time.RFC3339, text)
	if err == nil {
		return &end, nil
	}
	if d, err := time.ParseDuration(text); err == nil {
		end = now.Add(d)
		return &end, nil
	}
	if date, err := time.ParseInLocation(time.DateOnly, text, now.Location()); err == nil {
		end = tenants.EndOf(date, now.Location())
		return &end, nil
	}
	word := strings.ToLower(text)
	at := slices.IndexFunc(weekdays, func(d string) bool { return word == d || word == d[:3] })
	if word == "today" {
		at = int(now.Weekday())
	}
	if at < 0 {
		return nil, &usageError{"--until " + text + " is no end; write a day such as friday or 2027-01-31, a time such as 2027-01-31T18:00:00Z, or a duration such as 2h"}
	}
	end = tenants.EndOf(now.AddDate(0, 0, (at-int(now.Weekday())+7)%7), now.Location())
	return &end, nil
}
