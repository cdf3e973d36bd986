package main

import (
	"fmt"

	"github.com/llmgov/llmgov/internal/lab/plan"
	"github.com/llmgov/llmgov/internal/ops/decisions"
	"github.com/llmgov/llmgov/tenants"
)

type planCmd struct {
	Log    []string `required:"" sep:"none" placeholder:"FILE" help:"A decision log, as decision_log.path names it. Its older files, .1 and so on, are read too. Give it again for each gateway that shares the limits."`
	Config string   `short:"c" required:"" placeholder:"FILE" help:"The config file of the candidate."`
	Allow  int      `placeholder:"N" help:"Admitted calls that may be refused before the exit code is 1. Default 0."`
	JSON   bool     `name:"json" help:"Print one JSON object instead of a table."`
}

func (planCmd) Help() string {
	return `Example: llmgov plan --log /var/log/llmgov/decisions.jsonl -c candidate/llmgov.yaml
         llmgov plan --log gw-1/decisions.jsonl --log gw-2/decisions.jsonl -c candidate/llmgov.yaml

The logs of gateways that share their limits through a store are decided together, as if one gateway had the limits to
itself.

Exit codes: 0 at most --allow admitted calls would be refused, 1 more would be, or the log or the files are invalid,
2 the command line is wrong.`
}

func (c planCmd) Run(e *env) error {
	if c.Allow < 0 {
		return &usageError{fmt.Sprintf("--allow must not be negative, as %d is", c.Allow)}
	}
	snap, err := tenants.Load(c.Config, tenants.Options{Env: e.vars})
	if err != nil {
		return err
	}
	logs, err := c.logs()
	if err != nil {
		return fmt.Errorf("llmgov: %w", err)
	}
	report, err := plan.Compare(logs, plan.Candidate(snap))
	if err != nil {
		return fmt.Errorf("llmgov: %w", err)
	}
	if c.JSON {
		err = writeJSON(e, report)
	} else {
		err = report.Write(e.stdout)
	}
	if err == nil && report.NowRefused > c.Allow {
		err = fmt.Errorf("llmgov: %d calls that were admitted would be refused, and --allow says %d", report.NowRefused, c.Allow)
	}
	return err
}

// logs are the files of --log.
func (c planCmd) logs() (list []plan.Log, err error) {
	files, err := decisions.Logs(c.Log)
	if err != nil {
		return nil, err
	}
	for i, path := range c.Log {
		log, err := plan.ReadLog(path, decisions.Read(files[i]))
		if err != nil {
			return nil, err
		}
		list = append(list, log)
	}
	return list, nil
}
