package fleet

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/llmgov/llmgov/internal/lab/mock"
	"github.com/llmgov/llmgov/internal/lab/plan"
	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/internal/test/testkit/processtest"
	"github.com/llmgov/llmgov/internal/test/testkit/redistest"
)

// TestPlanFleet: the logs of two gateways that share a tenant's limit tell whom half of it would have
// refused; one of them tells that the other one is missing.
func TestPlanFleet(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"leased", "strict"} {
		t.Run(mode, func(t *testing.T) {
			if mode == "leased" {
				testkit.Long(t, "shows the same of another mode")
			}
			t.Parallel()
			f := newFleet(t, 2, minutePool(processtest.NewProvider(t, mock.Config{}).URL, mode, redistest.New(t).URL()), minuteRules(20))
			f.await("free", f.gateways...)
			f.served("free", 10, 0, f.gateways...)
			if n, _ := f.served("minute", 20, 10, f.gateways...); n != 20 { // and more, in vain
				t.Fatalf("of 20 calls %d were served", n)
			}
			logs := f.logs()

			same, code := planned(t, logs, f.dir)
			if minute := same.Tenants[1]; code != 0 || !same.Shared || !same.Exact || len(same.Missing) > 0 || same.AsOne > minute.Calls || minute.Before.Admitted != 20 {
				t.Errorf("by the same policy it ends with %d, and of %d calls %d come out otherwise, %d at another time, and %d as if by one; of minute's %d are admitted; missing %v",
					code, same.Calls, same.Differ, same.Inexact, same.AsOne, minute.Before.Admitted, same.Missing)
			}

			half := t.TempDir()
			processtest.Write(t, half, map[string]string{
				"llmgov.yaml":      minutePool("http://mock.invalid", mode, "redis://store.invalid:6379"),
				"tenants/all.yaml": policy(minuteRules(10)),
			})
			got, code := planned(t, logs, half)
			free := got.Tenants[0]
			minute := got.Tenants[1]
			if code != 1 || minute.Before.Admitted != 20 || minute.After.Admitted != 10 || minute.NowRefused != 10 || minute.NowAdmitted != 0 {
				t.Errorf("of half the limit it ends with %d: %+v", code, minute)
			}
			if free.NowRefused+free.NowAdmitted != 0 || free.Calls < 10 || len(minute.By) != 1 || minute.By[0].Axis != "requests" {
				t.Errorf("who flips are %+v, and %+v", minute.By, free)
			}

			part, _ := planned(t, logs[:1], half)
			if len(part.Missing) != 1 || part.Missing[0].Node != "n1" || part.Calls >= got.Calls {
				t.Errorf("of one log %d calls are told of, and missing are %v", part.Calls, part.Missing)
			}
		})
	}
}

// minutePool is the config of a pool whose decisions are written down.
func minutePool(url, mode, store string) string {
	return "upstreams: {mock: {base_url: " + url + "}}\npools: {p: {models: [\"*\"], rpm: 100000, expect_nodes: 2, tenant_limits: " + mode + "}}\n" +
		"store: \"" + store + "\"\ndecision_log: {path: decisions.jsonl}\n"
}

// minuteRules let a tenant make so many calls a minute.
func minuteRules(rpm int) map[string]string {
	return map[string]string{"free": "weight: 1", "minute": fmt.Sprint("rpm: ", rpm)}
}

// logs ends all gateways, once the first one has seen the others, and returns their logs.
func (f *fleet) logs() (paths []string) {
	f.t.Helper()
	for _, g := range f.gateways {
		paths = append(paths, filepath.Join(g.proc.Load().Dir, "decisions.jsonl"))
	}
	redistest.Eventually(f.t, "a gateway has written that it sees both", func() bool {
		f.gateways[0].ask("free", 0)
		text, err := os.ReadFile(paths[0])
		return err == nil && strings.Contains(string(text), `"nodes":["n0","n1"]`)
	})
	for _, g := range f.gateways {
		g.end(os.Interrupt)
	}
	return paths
}

// planned is what llmgov plan says of logs by the policy in a folder, and its exit code.
func planned(t *testing.T, logs []string, dir string) (r plan.Report, code int) {
	t.Helper()
	args := []string{"plan", "-c", filepath.Join(dir, "llmgov.yaml"), "--json"}
	for _, path := range logs {
		args = append(args, "--log", path)
	}
	p := processtest.Command{Args: args}.Start(t)
	code, err := p.Exit()
	if err == nil {
		err = json.Unmarshal([]byte(p.Output()), &r)
	}
	if err != nil {
		t.Fatalf("%v: %s%s", err, p.Output(), p.Log())
	}
	return r, code
}
