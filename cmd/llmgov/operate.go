package main

import (
	"cmp"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/llmgov/llmgov/cmd/llmgov/report"
	"github.com/llmgov/llmgov/internal/ops/adminapi"
)

type reloadCmd struct{ asking }

func (reloadCmd) Help() string {
	return `Example: llmgov reload

Exit codes: 0 the files are in force, 1 they are invalid and the previous policy stays in force, or there is no gateway,
2 the command line is wrong.`
}

func (c reloadCmd) Run(e *env) error {
	var done adminapi.Reloaded
	if _, err := c.ask(e, http.MethodPost, "/api/v1/reload", nil, &done); err != nil {
		return err
	}
	what := "Nothing has changed since the files were last read"
	if done.Changed {
		what = "The files are in force"
	}
	fmt.Fprintf(e.stdout, "%s: policy %.12s.\n", what, done.PolicyHash)
	if len(done.NeedsRestart) > 0 {
		fmt.Fprintf(e.stdout, "Restart the gateway to apply %s.\n", strings.Join(done.NeedsRestart, ", "))
	}
	return nil
}

type drainCmd struct{ asking }

func (drainCmd) Help() string {
	return `Example: llmgov drain --admin http://127.0.0.1:9091

The process ends once its calls have, after timeouts.drain at the latest. What supervises it, such as systemd or
Kubernetes, starts it again.`
}

func (c drainCmd) Run(e *env) error {
	side, err := c.ask(e, http.MethodPost, "/api/v1/drain", nil, nil)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(e.stdout, "The gateway at %s is draining: no new calls should be sent to it, and it ends when its calls have.\n", side.where)
	return err
}

type tenantsCmd struct {
	asking
	JSON bool `name:"json" help:"Print one JSON object instead of a table."`
}

func (tenantsCmd) Help() string { return `Example: llmgov tenants` }

func (c tenantsCmd) Run(e *env) error {
	var list adminapi.TenantList
	if _, err := c.ask(e, http.MethodGet, "/api/v1/tenants", nil, &list); err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(e, list)
	}
	rows := [][]string{{"TENANT", "TIER", "WEIGHT", "RUNNING", "WAITING", "USED"}}
	for i := range list.Tenants {
		t := &list.Tenants[i]
		waiting := t.Waiting
		for _, n := range t.Queued {
			waiting += n
		}
		rows = append(rows, []string{t.Name, cmp.Or(t.Tier, "-"), decimal(t.Weight), decimal(float64(t.Running)), strconv.Itoa(waiting), strings.Join(used(t), ", ")})
	}
	_, err := fmt.Fprint(e.stdout, report.Aligned(rows, 2, 3, 4))
	return err
}

// used is how much of each of a tenant's own limits is used.
func used(t *adminapi.Tenant) []string {
	var parts []string
	for _, l := range t.Limits {
		part := fmt.Sprintf("%d of %d %s", l.Used, l.Limit, l.Axis)
		if l.Pool != "" {
			part += " in " + l.Pool
		}
		parts = append(parts, part)
	}
	for _, b := range t.Budgets {
		part := fmt.Sprintf("%s of %s %s per %s", decimal(b.Used), decimal(b.Limit), b.Unit, b.Per)
		if b.Pool != "" {
			part += " in " + b.Pool
		}
		parts = append(parts, part)
	}
	return parts
}

func decimal(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }
