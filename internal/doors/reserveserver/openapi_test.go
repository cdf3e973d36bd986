package reserveserver

import (
	"encoding/json"
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/swaggest/openapi-go"
	"github.com/swaggest/openapi-go/openapi31"

	"github.com/llmgov/llmgov/internal/test/testkit"
)

var update = flag.Bool("update", false, "write openapi.json")

type (
	withID struct {
		ID string `path:"id" minLength:"1" maxLength:"128" pattern:"^[!-.0-~]+$" description:"The reservation_id."`
	}
	progressAsk struct {
		withID
		progressRequest
	}
	commitAsk struct {
		withID
		commitRequest
	}
	cancelAsk struct {
		withID
	}
	errorAnswer struct {
		Error struct {
			Message string  `json:"message" required:"true"`
			Type    string  `json:"type" required:"true"`
			Param   *string `json:"param"`
			Code    string  `json:"code" required:"true"`
		} `json:"error" required:"true"`
	}
)

// operations are all routes, and the refusals of each.
var operations = []struct {
	route, id, summary string
	asks, gives        any
	refusals           []int
}{
	{"POST /v1/reservations", "reserve", "Wait until a call may begin, and hold what it may take.", reserveRequest{}, reserveAnswer{}, []int{400, 402, 404, 409, 413, 429, 503}},
	{"POST /v1/reservations/{id}/progress", "progress", "Say how far a call has come, and renew its reservation.", progressAsk{}, progressAnswer{}, []int{400, 404, 409, 413}},
	{"POST /v1/reservations/{id}/commit", "commit", "End a reservation with what the call took.", commitAsk{}, endAnswer{}, []int{400, 404, 413}},
	{"POST /v1/reservations/{id}/cancel", "cancel", "End the reservation of a call that was never made.", cancelAsk{}, endAnswer{}, []int{400, 404, 413}},
	{"GET /openapi.json", "description", "This description.", nil, map[string]any{}, nil},
}

// The description is that of the types that are served.
func TestOpenAPI(t *testing.T) {
	r := openapi31.NewReflector()
	r.Spec.Info.Title = "llmgov admission API"
	r.Spec.Info.Version = "v1"
	r.Spec.SetHTTPBearerTokenSecurity("token", "", "The admission.token, or the key of a tenant; without a token, this machine may ask without either.")
	for _, o := range operations {
		method, path, _ := strings.Cut(o.route, " ")
		c := testkit.Must(r.NewOperationContext(method, path))(t)
		c.SetID(o.id)
		c.SetSummary(o.summary)
		c.AddSecurity("token")
		if o.asks != nil {
			c.AddReqStructure(o.asks)
		}
		c.AddRespStructure(o.gives, openapi.WithHTTPStatus(200))
		for _, status := range append(o.refusals, 401, 403) {
			c.AddRespStructure(errorAnswer{}, openapi.WithHTTPStatus(status))
		}
		testkit.OK(t, r.AddOperation(c))
	}
	text := testkit.Must(json.MarshalIndent(r.Spec, "", "  "))(t)
	text = append(text, '\n')
	if *update {
		testkit.OK(t, os.WriteFile("openapi.json", text, 0o644))
	}
	if diff := cmp.Diff(string(OpenAPI), string(text)); diff != "" && !*update {
		t.Errorf("openapi.json is not up to date, run: go test ./internal/doors/reserveserver -update\n%s", diff)
	}
}
