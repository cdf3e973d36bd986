package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/llmgov/llmgov/internal/plan"
	"github.com/llmgov/llmgov/internal/testkit/redistest"
	"github.com/llmgov/llmgov/tenants"
)

// TestPlanFleet: the logs of two gateways that share a tenant's limit tell whom half of it would have
// refused; one of them tells that the other one is missing.
func TestPlanFleet(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"leased", "strict"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			l := newLogged(t, redistest.New(t).URL(), mode)
			var asking sync.WaitGroup
			asking.Go(func() { l.served("free", 10, time.Second, l.gateways...) })
			served := 0
			for range 2 { // and once more, in vain
				redistest.Eventually(t, "all of the limit is used", func() bool {
					n, _ := l.served("minute", 0, time.Second, l.gateways...)
					served += n
					return served >= 20
				})
			}
			asking.Wait()
			if served != 20 {
				t.Fatalf("of 20 calls %d were served", served)
			}
			logs := l.logs()

			same, code := planned(t, logs, l.config)
			if minute := same.Tenants[1]; code != 0 || !same.Shared || same.Exact || len(same.Missing) > 0 || same.Differ > minute.Calls || minute.Before.Admitted != 20 {
				t.Errorf("by the same policy it ends with %d, and of %d calls %d come out otherwise; of minute's %d are admitted; missing %v",
					code, same.Calls, same.Differ, minute.Before.Admitted, same.Missing)
			}

			half := minutePolicy(t, "http://mock.invalid", 10, mode, "redis://store.invalid:6379")
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

// newLogged starts two gateways that share a store, and write down what they decide.
func newLogged(t *testing.T, store, mode string) *limited {
	t.Helper()
	l := &limited{t: t, config: minutePolicy(t, startMock(t), 20, mode, store)}
	for i := range 2 {
		p := launchNode(t, l.config, i)
		if p == nil {
			t.FailNow()
		}
		l.gateways = append(l.gateways, p)
	}
	l.await(l.gateways...)
	return l
}

// minutePolicy writes files by which a tenant has so many calls a minute.
func minutePolicy(t *testing.T, mock string, rpm int, mode, store string) (config string) {
	t.Helper()
	dir := t.TempDir()
	config = filepath.Join(dir, "llmgov.yaml")
	for file, text := range map[string]string{
		config: "upstreams: {mock: {base_url: " + mock + "/v1}}\npools: {p: {models: [\"*\"], rpm: 100000, expect_nodes: 2, tenant_limits: " + mode + "}}\n" +
			"store: \"" + store + "\"\npolicies: [tenants.yaml]\ndecision_log: {path: decisions.jsonl}\n",
		filepath.Join(dir, "tenants.yaml"): fmt.Sprintf("tenants:\n  free: {keys: [%q]}\n  minute: {keys: [%q], rpm: %d}\n",
			tenants.HashKey("key-of-free").String(), tenants.HashKey("key-of-minute").String(), rpm),
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return config
}

// logs ends all gateways, once the first one has seen the others, and returns their logs.
func (l *limited) logs() (paths []string) {
	l.t.Helper()
	for _, p := range l.gateways {
		paths = append(paths, filepath.Join(p.cmd.Dir, "decisions.jsonl"))
	}
	redistest.Eventually(l.t, "a gateway has written that it sees both", func() bool {
		l.call(l.gateways[0], "free", 0)
		text, err := os.ReadFile(paths[0])
		return err == nil && strings.Contains(string(text), `"nodes":["n0","n1"]`)
	})
	for _, p := range l.gateways {
		if err := p.cmd.Process.Signal(os.Interrupt); err != nil {
			l.t.Fatal(err)
		}
		if _, err := p.exit(); err != nil {
			l.t.Fatal(err)
		}
	}
	return paths
}

// planned is what llmgov plan says of logs, and its exit code.
func planned(t *testing.T, logs []string, config string) (r plan.Report, code int) {
	t.Helper()
	args := []string{"plan", "-c", config, "--json"}
	for _, path := range logs {
		args = append(args, "--log", path)
	}
	var out, errs bytes.Buffer
	code = run(t.Context(), args, nil, &out, &errs)
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatalf("%v: %s%s", err, out.Bytes(), errs.Bytes())
	}
	return r, code
}
