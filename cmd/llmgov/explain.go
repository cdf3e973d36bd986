package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	neturl "net/url"
	"os"
	"strings"
	"time"

	"github.com/llmgov/llmgov/cmd/llmgov/report"
	"github.com/llmgov/llmgov/internal/ops/adminapi"
	"github.com/llmgov/llmgov/internal/run/explain"
	"github.com/llmgov/llmgov/internal/run/identity"
	"github.com/llmgov/llmgov/tenants"
)

type explainCmd struct {
	Tenant   string         `placeholder:"NAME" help:"The caller: a tenant, or a team by its path, such as acme/search."`
	Claims   string         `placeholder:"FILE" help:"Instead of --tenant: a file with a token of the identity provider, or with its claims as JSON; - is standard input. Whose it is, is read from the files here, and not whether it is valid."`
	Member   string         `placeholder:"NAME" help:"Who of the tenant's members calls, as calls say it."`
	Model    string         `placeholder:"NAME" help:"The model that the call asks for."`
	Request  string         `placeholder:"ID" help:"Instead of all else: a call that was refused, by its x-request-id. Only the running gateway knows. With --tenant, if several tenants use the same ids."`
	Tokens   *int64         `placeholder:"N" help:"Tokens in all. Default: --input, and the tokens held for a call that does not bound its answer."`
	Input    *int64         `placeholder:"N" help:"Tokens of the prompt, of those in all. Default 0."`
	Priority string         `placeholder:"CLASS" help:"interactive, background, or 0 to 9."`
	MaxWait  *time.Duration `placeholder:"DURATION" help:"The longest that the call would wait, if the policy allows as much."`
	asking
	JSON bool `name:"json" help:"Print one JSON object instead of a table."`
}

func (explainCmd) Help() string {
	return `Example: llmgov explain --tenant acme --model gpt-4o --tokens 20000
         llmgov explain --claims token.jwt --model gpt-4o
         llmgov explain --request req_2f6a0c1d9b3e4f5a6b7c8d9e

Exit codes: 0 there is an answer, also when the call would be refused, 1 there is no such tenant or model, or the files
are invalid, 2 the command line is wrong.`
}

func (c explainCmd) Run(e *env) error {
	if c.Request != "" {
		return c.recorded(e)
	}
	a := &report.Answer{}
	if c.Claims != "" {
		if err := c.readClaims(e, a); err != nil {
			return err
		}
	}
	q := &adminapi.Question{Tenant: c.Tenant, Member: c.Member, Model: c.Model, Tokens: c.Tokens, Input: c.Input, Priority: c.Priority, MaxWait: c.MaxWait}
	if c.Tenant == "" || c.Model == "" {
		return &usageError{"give the call's --tenant, or --claims, and --model, or the --request of a refused call"}
	}
	if err := q.Validate(); err != nil {
		return &usageError{err.Error()}
	}
	snap, cfg, err := loadFiles(e, c.Config)
	if err != nil {
		return err
	}
	var unknown error // by the files; a gateway may know of what was set at run time
	if snap != nil {
		a.Explanation, unknown = explain.Files(snap, q)
	}
	if err := c.complete(e, a, snap, cfg, q, unknown); err != nil {
		return err
	}
	if c.JSON {
		for _, n := range a.Notes {
			fmt.Fprintln(e.stderr, "llmgov:", n)
		}
		return writeJSON(e, a.Explanation)
	}
	return a.Write(e.stdout)
}

// readClaims finds the tenant and the member of a token.
func (c *explainCmd) readClaims(e *env, a *report.Answer) error {
	if c.Tenant != "" || c.Member != "" {
		return &usageError{"--claims say whose the call is; leave out --tenant and --member"}
	}
	snap, cfg, err := loadFiles(e, c.Config)
	if err != nil {
		return err
	}
	if snap == nil || len(cfg.Identity.Issuers) == 0 {
		return &usageError{"--claims need a config with identity; name it with -c"}
	}
	read := os.ReadFile
	if c.Claims == "-" {
		read = func(string) ([]byte, error) { return io.ReadAll(os.Stdin) }
	}
	data, err := read(c.Claims)
	if err != nil {
		return fmt.Errorf("llmgov: %w", err)
	}
	all, ok := identity.Claims(strings.TrimSpace(string(data)))
	if !ok && json.Unmarshal(data, &all) != nil {
		return fmt.Errorf("llmgov: %s has neither a token nor a JSON object with its claims", c.Claims)
	}
	t, why, err := identity.Explain(&cfg.Identity, snap, all)
	if err != nil {
		return fmt.Errorf("llmgov: such a token is refused: %w", err)
	}
	c.Tenant = t.Name
	if t.Members != nil {
		c.Member = identity.ValueOf(all, t.Members.By.Claim())
		if t.Members.By.Source == tenants.ByKey && c.Member != "" {
			c.Member = tenants.SubjectMember + c.Member
		}
	}
	a.Note("a call with such a token is of %s: %s.", t.Name, why)
	return nil
}

// recorded explains a call that was refused.
func (c explainCmd) recorded(e *env) error {
	if c.Claims != "" || c.Member != "" || c.Model != "" || c.Tokens != nil || c.Input != nil || c.Priority != "" || c.MaxWait != nil {
		return &usageError{"--request already names the call; leave out the other flags, except --tenant"}
	}
	side, err := c.side(e)
	if err != nil {
		return err
	}
	a := &report.Answer{}
	query := neturl.Values{"request": {c.Request}}
	if c.Tenant != "" {
		query.Set("tenant", c.Tenant)
	}
	a.Explanation, err = side.explanation(e.ctx, query)
	if err != nil {
		return fmt.Errorf("llmgov: %w", err)
	}
	if c.JSON {
		return writeJSON(e, a.Explanation)
	}
	return a.Write(e.stdout)
}

// complete replaces the answer from the files by that of a running gateway.
func (c explainCmd) complete(e *env, a *report.Answer, snap *tenants.Snapshot, cfg *tenants.Config, q *adminapi.Question, unknown error) error {
	side, err := adminSideOf(c.Admin, cfg.Admin)
	if _, wrongly := errors.AsType[*usageError](err); wrongly {
		return err
	}
	var live *adminapi.Explanation
	if err == nil {
		live, err = side.explanation(e.ctx, q.Values())
	}
	if err == nil {
		a.Explanation = live
		if snap != nil && live.PolicyHash != snap.Hash() {
			a.Note("the gateway at %s has a policy in force (%.12s) other than these files (%.12s); this is by the gateway's.", side.where, live.PolicyHash, snap.Hash())
		}
		return nil
	}
	_, said := errors.AsType[*saidError](err)
	switch {
	case c.Admin != "", said && (snap == nil || unknown != nil):
		return fmt.Errorf("llmgov: %w", err)
	case unknown != nil:
		return fmt.Errorf("llmgov: %w", unknown)
	case snap == nil:
		return &usageError{fmt.Sprintf("there is no %s here; name a config with -c, or a gateway with --admin: %v", defaultConfig, err)}
	}
	a.Note("%v. This is from the files alone: current usage, and the decision now, are unknown.", err)
	return nil
}
