package instance

import (
	"reflect"
	"strings"

	"github.com/llmgov/llmgov/tenants"
)

// lines splits a text into its problems, one a line.
func lines(text string) []string { return strings.Split(text, "\n") }

// atStart are the settings that a process reads only when it starts. All others
// change while it runs.
var atStart = []struct {
	key string
	of  func(*tenants.Config) any
}{
	{"listen", func(c *tenants.Config) any { return c.Listen }},
	{"h2c", func(c *tenants.Config) any { return c.H2C }},
	{"healthz", func(c *tenants.Config) any { return c.Healthz }},
	{"lean_http", func(c *tenants.Config) any { return c.LeanHTTP }},
	{"max_connections", func(c *tenants.Config) any { return c.MaxConnections }},
	{"tls.cert", func(c *tenants.Config) any { return c.TLS.Cert }},
	{"tls.key", func(c *tenants.Config) any { return c.TLS.Key }},
	{"tls.client_ca", func(c *tenants.Config) any { return c.TLS.ClientCA }},
	{"admin.tls.cert", func(c *tenants.Config) any { return c.Admin.TLS.Cert }},
	{"admin.tls.key", func(c *tenants.Config) any { return c.Admin.TLS.Key }},
	{"admin.tls.client_ca", func(c *tenants.Config) any { return c.Admin.TLS.ClientCA }},
	{"admission.tls.cert", func(c *tenants.Config) any { return c.Admission.TLS.Cert }},
	{"admission.tls.key", func(c *tenants.Config) any { return c.Admission.TLS.Key }},
	{"admission.tls.client_ca", func(c *tenants.Config) any { return c.Admission.TLS.ClientCA }},
	{"admin.listen", func(c *tenants.Config) any { return c.Admin.Listen }},
	{"admin.token", func(c *tenants.Config) any { return c.Admin.Token != "" }}, // another one is in force at once
	{"admin.unready_on_store_loss", func(c *tenants.Config) any { return c.Admin.UnreadyOnStoreLoss }},
	{"admission.listen", func(c *tenants.Config) any { return c.Admission.Listen }},
	{"admission.token", func(c *tenants.Config) any { return c.Admission.Token != "" }},
	{"admission.tenant", func(c *tenants.Config) any { return c.Admission.Tenant }},
	{"admission.descriptors", func(c *tenants.Config) any { return c.Admission.Descriptors }},
	{"admission.most_open", func(c *tenants.Config) any { return c.Admission.MostOpen }},
	{"node", func(c *tenants.Config) any { return c.Node }},
	{"region", func(c *tenants.Config) any { return c.Region }},
	{"store", func(c *tenants.Config) any { return c.Store }},
	{"state_dir", func(c *tenants.Config) any { return c.StateDir }},
	{"decision_log.path", func(c *tenants.Config) any { return c.DecisionLog.Path }},
	{"decision_log.max_size", func(c *tenants.Config) any { return c.DecisionLog.MaxSize }},
	{"decision_log.keep", func(c *tenants.Config) any { return c.DecisionLog.Keep }},
	// Budgets are booked in periods of the previous zone.
	{"timezone", func(c *tenants.Config) any { return c.Timezone }},
	{"timeouts.read_header", func(c *tenants.Config) any { return c.Timeouts.ReadHeader }},
}

// restartFor names the settings that have changed since the start and need a
// restart.
func restartFor(start, now *tenants.Config) []string {
	out := []string{}
	for _, s := range atStart {
		if s.of(start) != s.of(now) {
			out = append(out, s.key)
		}
	}
	return out
}

// differences count the differences between two policies, for the log, without zeros.
func differences(before, after *tenants.Snapshot) (out []any) {
	add := func(kind string, added, removed, changed int) {
		for what, n := range []int{added, removed, changed} {
			if n > 0 {
				out = append(out, kind+[]string{"_added", "_removed", "_changed"}[what], n)
			}
		}
	}
	added, removed, changed := after.Since(before)
	add("tenants", added, removed, changed)
	was := map[string]tenants.Pool{}
	for _, p := range before.Pools() {
		p.Index = 0
		was[p.Name] = p
	}
	added = 0
	changed = 0
	for _, p := range after.Pools() {
		p.Index = 0
		old, known := was[p.Name]
		delete(was, p.Name)
		switch {
		case !known:
			added++
		case !reflect.DeepEqual(old, p):
			changed++
		}
	}
	add("pools", added, len(was), changed)
	return out
}
