package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/llmgov/llmgov/internal/proxy/gateway/upstream"
	"github.com/llmgov/llmgov/internal/proxy/upstreams"
	"github.com/llmgov/llmgov/tenants"
)

// writeDeclared prints the limits that each upstream of each pool declares in answer to one call, or lists, beside those that are configured.
func writeDeclared(ctx context.Context, w io.Writer, cfg *tenants.Config, through http.RoundTripper) error {
	byName, err := upstream.New(cfg.Upstreams)
	if err != nil {
		return err
	}
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(tw, "\nLimits that upstreams declare, by one call each or in their lists of limits:\n\n  POOL\tUPSTREAM\tMODEL\tLIMIT\tCONFIGURED\tDECLARED\n")
	for i := range cfg.Pools {
		p := &cfg.Pools[i]
		for k := range p.Upstreams {
			of := &p.Upstreams[k]
			model := named(p.Models)
			row := fmt.Sprintf("  %s\t%s\t%s\t", p.Name, of.Name, of.ModelName(model))
			if model == "" {
				fmt.Fprintf(tw, "%s\t\tnot asked: models names none without *\n", row)
				continue
			}
			ctx, done := context.WithTimeout(ctx, upstream.AskTimeout)
			told, err := byName[of.Name].AskLimits(ctx, through, of.ModelName(model))
			done()
			if err != nil {
				fmt.Fprintf(tw, "%s\t\t%v\n", row, err)
				continue
			}
			for _, unit := range upstreams.Limited {
				if configured, said := cmp.Or(*of.Amount(unit), *p.Amount(unit)), told[unit]; configured > 0 || said > 0 {
					fmt.Fprintf(tw, "%s%s\t%s\t%s\n", row, unit.Key(), orNone(configured), orNone(said))
				}
			}
		}
	}
	return tw.Flush()
}

// named is the first of a pool's models that is no pattern; "" if all are.
func named(models []string) string {
	for _, m := range models {
		if !strings.Contains(m, "*") {
			return m
		}
	}
	return ""
}

func orNone(n int64) string {
	if n == 0 {
		return "none"
	}
	return strconv.FormatInt(n, 10)
}
