package admin

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/llmgov/llmgov/internal/ops/adminapi"
	"github.com/llmgov/llmgov/internal/ops/events"
	"github.com/llmgov/llmgov/internal/test/testkit"
)

// The routes that are described are those that there are.
func TestOpenAPI_Routes(t *testing.T) {
	var description struct {
		Paths map[string]map[string]any `json:"paths"`
	}
	testkit.OK(t, json.Unmarshal(adminapi.OpenAPI, &description))
	var described []string
	for path, methods := range description.Paths {
		for method := range methods {
			described = append(described, strings.ToUpper(method)+" "+path)
		}
	}
	a := &API{Options: Options{Events: &events.Ring{}, Metrics: http.NotFoundHandler()}}
	routes := append(slices.Collect(maps.Keys(a.described())), "GET /livez", "GET /readyz")
	slices.Sort(described)
	slices.Sort(routes)
	if diff := cmp.Diff(routes, described); diff != "" {
		t.Errorf("routes (-there +described):\n%s", diff)
	}
}

// A question is the same after its way through a query.
func TestQuestion_Values(t *testing.T) {
	n := int64(12)
	m := int64(0)
	d := 1500 * time.Millisecond
	for _, q := range []*adminapi.Question{
		{Tenant: "a/b", Model: "x&y=z"},
		{Tenant: "a", Model: "m", Tokens: &n, Input: &m, Priority: "background", MaxWait: &d},
		{Tenant: "a", Model: "m", Output: &n},
	} {
		got := testkit.Must(readQuestion(q.Values()))(t)
		if diff := cmp.Diff(q, got); diff != "" {
			t.Errorf("(-asked +read):\n%s", diff)
		}
	}
}
