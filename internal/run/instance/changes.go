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

// differences count the differences between two policies, for the log.
func differences(before, after *tenants.Snapshot) []any {
	out := count("tenants", before.Tenants(), after.Tenants(), func(t tenants.Tenant) (string, any) {
		// its parent is in its name
		t.Source = ""
		t.Index = 0
		t.Parent = 0
		return t.Name, t
	})
	return append(out, count("pools", before.Pools(), after.Pools(), func(p tenants.Pool) (string, any) {
		p.Index = 0
		return p.Name, p
	})...)
}

// count is the number of a kind that were added, removed and changed, without zeros.
func count[T any](kind string, before, after []T, plain func(T) (name string, what any)) []any {
	was := map[string]any{}
	for _, one := range before {
		name, what := plain(one)
		was[name] = what
	}
	added := 0
	changed := 0
	for _, one := range after {
		name, what := plain(one)
		old, known := was[name]
		delete(was, name)
		switch {
		case !known:
			added++
		case !reflect.DeepEqual(old, what):
			changed++
		}
	}
	var out []any
	for _, n := range []struct {
		what string
		n    int
	}{{"added", added}, {"removed", len(was)}, {"changed", changed}} {
		if n.n > 0 {
			out = append(out, kind+"_"+n.what, n.n)
		}
	}
	return out
}
