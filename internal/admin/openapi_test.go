package admin

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/llmgov/llmgov/internal/adminapi"
	"github.com/llmgov/llmgov/internal/events"
	"github.com/llmgov/llmgov/internal/testkit"
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
