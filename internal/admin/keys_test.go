package admin

import (
	"context"
	"log/slog"
	"net/http"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/llmgov/llmgov/internal/adminapi"
	"github.com/llmgov/llmgov/internal/gateway"
	"github.com/llmgov/llmgov/internal/testkit"
	"github.com/llmgov/llmgov/internal/testkit/admissiontest"
	"github.com/llmgov/llmgov/tenants"
	"github.com/llmgov/llmgov/tenants/keyfile"
)

// changing finds the files bad, and puts another policy in force meanwhile.
type changing struct {
	t      *testing.T
	change func()
	done   sync.WaitGroup
}

// Reload implements Policies.
func (c *changing) Reload(ctx context.Context) (adminapi.Reloaded, error) {
	if ctx.Err() != nil {
		c.t.Error("the reload ends with who asked for it")
	}
	c.done.Go(c.change)
	return adminapi.Reloaded{}, tenants.Problems{{File: "b.yaml", What: "is bad"}}
}

// Status implements Policies.
func (c *changing) Status() adminapi.PolicyStatus { return adminapi.PolicyStatus{} }

// newKeysGateway serves two tenants.
func newKeysGateway(t *testing.T) *gateway.Gateway {
	t.Helper()
	cfg := tenants.DefaultConfig()
	cfg.Upstreams = []tenants.Upstream{{Name: "u", BaseURL: "http://127.0.0.1:1/v1"}}
	cfg.Pools = []tenants.Pool{tenants.DefaultPool("p", "m")}
	var list []tenants.Tenant
	for _, name := range []string{"acme", "bob"} {
		list = append(list, tenants.Tenant{Name: name, Weight: 1000, Keys: []tenants.Key{{Hash: tenants.HashKey(name)}}})
	}
	gw := testkit.Must(gateway.New(gateway.Options{Admission: admissiontest.Build(t, cfg, list...), Log: slog.New(slog.DiscardHandler)}))(t)
	return gw
}

// A policy that comes while a change of keys is taken over stays in force. That who asked has gone ends nothing.
func TestKeys_PolicyChangesMeanwhile(t *testing.T) {
	gw := newKeysGateway(t)
	c := &changing{t: t}
	side := New(gw, Options{Policies: c, Metrics: http.NotFoundHandler()})
	file := keyfile.New(filepath.Join(t.TempDir(), "llmgov.keys.yaml"))
	for rpm := range int64(100) {
		list := slices.Clone(gw.Snapshot().Tenants())
		list[0].RPM = rpm + 1
		cfg := *gw.Snapshot().Config()
		next := testkit.Must(tenants.Build(cfg, list))(t)
		c.change = func() {
			if err := gw.Apply(next); err != nil {
				t.Error(err)
			}
		}
		ctx, gone := context.WithCancel(t.Context())
		gone()
		testkit.OK(t, side.takeOver(ctx, file))
		c.done.Wait()
		if got := gw.Snapshot().Tenants()[0].RPM; got != rpm+1 {
			t.Fatalf("in force is a policy with rpm %d, after one with %d came", got, rpm+1)
		}
	}
}
