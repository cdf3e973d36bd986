package adminapi

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/swaggest/jsonschema-go"
	"github.com/swaggest/openapi-go"
	"github.com/swaggest/openapi-go/openapi31"

	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/tenants"
)

// operation is one route of the admin side, as its description has it.
type operation struct {
	route   string // method and path
	id      string
	summary string
	asks    any // query, path and body; nil if there is none
	gives   map[int]any
}

// plainText is an answer that is no JSON.
type plainText struct{}

type (
	keysQuery struct {
		Tenant string `query:"tenant" description:"Only the keys of this tenant."`
	}
	keyPath struct {
		ID string `path:"id" description:"The key's id, or sha256: and its whole hash."`
	}
	newKey struct {
		Tenant    string `json:"tenant" description:"Whose key it becomes."`
		Name      string `json:"name,omitempty" description:"Shown in lists."`
		Expires   string `json:"expires,omitempty" format:"date-time" description:"When it expires; never by default."`
		ExpiresIn string `json:"expires_in,omitempty" description:"A duration until it expires, such as 720h."`
		Hash      string `json:"hash,omitempty" pattern:"^sha256:[0-9a-f]{64}$" description:"The hash of a key that exists already."`
	}
	overridePath struct {
		Tenant string `path:"tenant" description:"A tenant, a team by its path: acme/search, or a member: acme/~ann."`
	}
	overrideChange struct {
		overridePath
		IfMatch     string `header:"If-Match" description:"Only if its ETag is this."`
		IfNoneMatch string `header:"If-None-Match" description:"With *: only if there is none."`
	}
	tenantChange struct {
		tenantPath
		IfMatch     string `header:"If-Match" description:"Only if its ETag is this."`
		IfNoneMatch string `header:"If-None-Match" description:"With *: only if there is none."`
		Why         string `header:"X-Llmgov-Why" description:"The reason."`
	}
	tenantPath struct {
		Name string `path:"name" description:"A tenant."`
	}
	newTenant struct {
		tenantChange
		Tier  string         `json:"tier,omitempty" description:"The tier that it starts from. This and all else is as below a tenant's name in a policy file."`
		Keys  []string       `json:"keys,omitempty"`
		RPM   *int64         `json:"rpm,omitempty"`
		TPM   *int64         `json:"tpm,omitempty"`
		Teams map[string]any `json:"teams,omitempty"`
		_     struct{}       `additionalProperties:"true"`
	}
	newOverride struct {
		overrideChange
		RPM         *int64     `json:"rpm,omitempty" minimum:"0" maximum:"1000000000000"`
		TPM         *int64     `json:"tpm,omitempty" minimum:"0" maximum:"1000000000000"`
		ITPM        *int64     `json:"itpm,omitempty" minimum:"0" maximum:"1000000000000"`
		OTPM        *int64     `json:"otpm,omitempty" minimum:"0" maximum:"1000000000000"`
		Concurrency *int64     `json:"concurrency,omitempty" minimum:"0" maximum:"1000000000000"`
		Weight      *float64   `json:"weight,omitempty" minimum:"0.001" maximum:"1000000"`
		Budgets     []string   `json:"budgets,omitempty" minItems:"1"`
		Pools       []string   `json:"pools,omitempty" minItems:"1"`
		Until       *time.Time `json:"until,omitempty" description:"When it ends; never by default."`
		Why         string     `json:"why" minLength:"1" maxLength:"256"`
	}
	oneQuery struct {
		Tenant string `query:"tenant" description:"Only this tenant, with its teams."`
		Query  string `query:"q" description:"Only tenants with this in their names or tiers."`
		Limit  int    `query:"limit" minimum:"1" maximum:"10000" description:"At most so many: in the order of names or, of shares, the most active."`
	}
	pageQuery struct {
		oneQuery
		After string `query:"after" description:"Only those after this name: the next of the page before."`
	}
	historyQuery struct {
		Pool   string   `query:"pool" required:"true"`
		Tenant []string `query:"tenant" explode:"true" description:"By default, those that received most."`
	}
	spendQuery struct {
		By     string `query:"by" description:"What to add up by: day, tenant, team, model, upstream, or several of these with commas. Default tenant."`
		From   string `query:"from" format:"date" description:"The first day. Default: the first of this month."`
		To     string `query:"to" format:"date" description:"The last day. Default: today."`
		Tenant string `query:"tenant" description:"Only this tenant, with its teams."`
	}
	explainQuery struct {
		Tenant   string `query:"tenant"`
		Member   string `query:"member" description:"Who of the tenant's members calls."`
		Model    string `query:"model"`
		Tokens   int64  `query:"tokens" minimum:"0" maximum:"1000000000" description:"In all; either this or output."`
		Input    int64  `query:"input" minimum:"0" maximum:"1000000000"`
		Output   int64  `query:"output" minimum:"0" maximum:"1000000000"`
		Priority string `query:"priority" enum:"interactive,background,0,1,2,3,4,5,6,7,8,9"`
		MaxWait  string `query:"max_wait" description:"A duration such as 500ms."`
		Request  string `query:"request" description:"The id of a refused call, instead of all but tenant."`
	}
	eventsQuery struct {
		Tenant      []string `query:"tenant" explode:"true" description:"With its teams."`
		Pool        []string `query:"pool" explode:"true"`
		Kind        []string `query:"kind" explode:"true"`
		LastEventID string   `header:"Last-Event-ID" description:"Continue after this event."`
	}
)

// operations are all routes that are not for people alone.
var operations = []operation{
	{"GET /livez", "live", "Whether the process lives.", nil, map[int]any{200: plainText{}, 503: plainText{}}},
	{"GET /readyz", "ready", "Whether calls can be admitted.", nil, map[int]any{200: plainText{}, 503: plainText{}}},
	{"GET /metrics", "metrics", "Metrics in Prometheus' text format.", nil, map[int]any{200: plainText{}}},
	{"GET /version", "version", "The version.", nil, map[int]any{200: Version{}}},
	{"GET /api/openapi.json", "description", "This description.", nil, map[int]any{200: map[string]any{}}},
	{"GET /api/v1/me", "me", "Who asks, and what that may do.", nil, map[int]any{200: Me{}}},
	{"GET /api/v1/snapshot", "snapshot", "The present state of the gateway and its pools.", nil, map[int]any{200: Snapshot{}}},
	{"GET /api/v1/tenants", "tenants", "Tenants and teams with their limits and use.", pageQuery{}, map[int]any{200: TenantList{}, 400: ErrorAnswer{}}},
	{"GET /api/v1/tenants/{name}", "tenant", "A tenant that was set at run time.", tenantPath{}, map[int]any{200: tenants.RuntimeTenant{}, 404: ErrorAnswer{}}},
	{"PUT /api/v1/tenants/{name}", "setTenant", "Set a tenant, in place of one of the files, at all gateways within two seconds.", newTenant{}, map[int]any{200: tenants.RuntimeTenant{}, 201: tenants.RuntimeTenant{}, 400: ErrorAnswer{}, 404: ErrorAnswer{}, 409: ErrorAnswer{}, 412: ErrorAnswer{}, 500: ErrorAnswer{}, 503: ErrorAnswer{}}},
	{"DELETE /api/v1/tenants/{name}", "clearTenant", "Have the tenant of the files again, or none.", tenantChange{}, map[int]any{204: nil, 400: ErrorAnswer{}, 404: ErrorAnswer{}, 409: ErrorAnswer{}, 412: ErrorAnswer{}, 500: ErrorAnswer{}, 503: ErrorAnswer{}}},
	{"GET /api/v1/fairness", "fairness", "How fairly each pool was shared in the last minute.", oneQuery{}, map[int]any{200: FairnessList{}, 400: ErrorAnswer{}}},
	{"GET /api/v1/history", "history", "The last hour of a pool.", historyQuery{}, map[int]any{200: History{}, 400: ErrorAnswer{}, 404: ErrorAnswer{}}},
	{"GET /api/v1/policy", "policy", "The policy in force, and where each limit is set.", oneQuery{}, map[int]any{200: Policy{}, 400: ErrorAnswer{}}},
	{"GET /api/v1/leases", "leases", "All admitted calls that have not ended.", nil, map[int]any{200: LeaseList{}}},
	{"POST /api/v1/reload", "reload", "Read the files now.", nil, map[int]any{200: Reloaded{}, 409: ProblemList{}, 422: ProblemList{}, 503: ProblemList{}}},
	{"POST /api/v1/drain", "drain", "Stop gracefully.", nil, map[int]any{202: nil}},
	{"GET /api/v1/explain", "explain", "What a call would meet now, or why one was refused.", explainQuery{}, map[int]any{200: Explanation{}, 400: ErrorAnswer{}, 403: ErrorAnswer{}, 404: ErrorAnswer{}, 409: ErrorAnswer{}}},
	{"GET /api/v1/events", "events", "A stream of decisions as they are made, as server-sent events whose data are Event.", eventsQuery{}, map[int]any{200: Event{}, 400: ErrorAnswer{}, 404: ErrorAnswer{}}},
	{"GET /api/v1/spend", "spend", "What calls have taken and cost.", spendQuery{}, map[int]any{200: Spend{}, 400: ErrorAnswer{}, 503: ErrorAnswer{}}},
	{"GET /api/v1/keys", "keys", "Keys of one tenant, or all.", keysQuery{}, map[int]any{200: KeyList{}}},
	{"POST /api/v1/keys", "createKey", "Make a key, or have one accepted by its hash.", newKey{}, map[int]any{201: CreatedKey{}, 400: ErrorAnswer{}, 404: ErrorAnswer{}, 409: ErrorAnswer{}, 500: ErrorAnswer{}}},
	{"GET /api/v1/overrides", "overrides", "Limits that are laid over those of the policy.", nil, map[int]any{200: OverrideList{}}},
	{"GET /api/v1/overrides/{tenant}", "override", "The override of a tenant or team.", overridePath{}, map[int]any{200: tenants.Override{}, 404: ErrorAnswer{}}},
	{"PUT /api/v1/overrides/{tenant}", "setOverride", "Override limits of a tenant or team, at all gateways within two seconds.", newOverride{}, map[int]any{200: tenants.Override{}, 201: tenants.Override{}, 400: ErrorAnswer{}, 404: ErrorAnswer{}, 412: ErrorAnswer{}, 500: ErrorAnswer{}, 503: ErrorAnswer{}}},
	{"DELETE /api/v1/overrides/{tenant}", "clearOverride", "Have the limits of the policy again.", overrideChange{}, map[int]any{204: nil, 412: ErrorAnswer{}, 500: ErrorAnswer{}, 503: ErrorAnswer{}}},
	{"DELETE /api/v1/keys/{id}", "revokeKey", "Revoke a key.", keyPath{}, map[int]any{200: RevokedKey{}, 404: ErrorAnswer{}, 409: ErrorAnswer{}, 500: ErrorAnswer{}}},
}

// The description that the gateway serves is that of the types by which it answers.
func TestOpenAPI(t *testing.T) {
	got := describe(t)
	const file = "openapi.json"
	if *update {
		testkit.OK(t, os.WriteFile(file, got, 0o600))
	}
	testkit.Same(t, string(OpenAPI), string(got), "openapi.json is not up to date, run: go test ./internal/ops/adminapi -update")
}

// describe returns the description of all operations.
func describe(t *testing.T) []byte {
	t.Helper()
	r := openapi31.NewReflector()
	comments := fieldComments(t)
	r.DefaultOptions = append(r.DefaultOptions, jsonschema.InterceptSchema(func(p jsonschema.InterceptSchemaParams) (bool, error) {
		if p.Processed && p.Value.IsValid() {
			describeFields(p.Schema, p.Value.Type(), comments)
		}
		return false, nil
	}))
	r.Spec.Info.Title = "llmgov admin API"
	r.Spec.Info.Version = "v1"
	r.Spec.SetHTTPBearerTokenSecurity("token", "", "The admin token; without one, only this machine may ask.")
	for _, o := range operations {
		addOperation(t, r, o)
	}
	text := testkit.Must(json.MarshalIndent(r.Spec, "", "  "))(t)
	return append(text, '\n')
}

func addOperation(t *testing.T, r *openapi31.Reflector, o operation) {
	t.Helper()
	method, path, _ := strings.Cut(o.route, " ")
	c := testkit.Must(r.NewOperationContext(method, path))(t)
	c.SetID(o.id)
	c.SetSummary(o.summary)
	if o.asks != nil {
		c.AddReqStructure(o.asks)
	}
	open := path == "/livez" || path == "/readyz"
	if !open {
		c.AddSecurity("token")
		addText(c, http.StatusUnauthorized)
		c.AddRespStructure(ErrorAnswer{}, openapi.WithHTTPStatus(http.StatusForbidden)) // a role that does not allow it
		addText(c, http.StatusForbidden)
	}
	for status, answer := range o.gives {
		switch {
		case answer == plainText{}:
			addText(c, status)
		case path == "/api/v1/events" && status == http.StatusOK:
			c.AddRespStructure(answer, openapi.WithHTTPStatus(status), openapi.WithContentType("text/event-stream"))
		default:
			c.AddRespStructure(answer, openapi.WithHTTPStatus(status))
		}
	}
	testkit.OK(t, r.AddOperation(c))
	item := r.Spec.Paths.MapOfPathItemValues[path]
	switch {
	case method == http.MethodPost && o.asks != nil:
		item.Post.RequestBody.RequestBody.WithRequired(true)
	case method == http.MethodPut:
		item.Put.RequestBody.RequestBody.WithRequired(true)
	}
}

func addText(c openapi.OperationContext, status int) {
	c.AddRespStructure("", openapi.WithHTTPStatus(status), openapi.WithContentType("text/plain"))
}

// describeFields gives the fields of a struct their comments, and says which are always there.
func describeFields(schema *jsonschema.Schema, of reflect.Type, comments map[string]string) {
	for of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	if of.Kind() != reflect.Struct {
		return
	}
	for _, field := range reflect.VisibleFields(of) {
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		property := schema.Properties[name].TypeObject
		if property == nil {
			continue
		}
		if comment := comments[of.Name()+"."+field.Name]; comment != "" && property.Description == nil && property.Ref == nil {
			property.WithDescription(comment)
		}
		if !strings.Contains(options, "omit") {
			schema.Required = append(schema.Required, name)
		}
	}
}

// fieldComments returns the comments of fields by TYPE.FIELD.
func fieldComments(t *testing.T) map[string]string {
	t.Helper()
	comments := map[string]string{}
	files := append(testkit.Must(filepath.Glob("*.go"))(t), "../../../tenants/override.go", "../../../tenants/atruntime.go", "../../../tenants/limits.go")
	for _, name := range files {
		f := testkit.Must(parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments))(t)
		ast.Inspect(f, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			body, ok := spec.Type.(*ast.StructType)
			if !ok {
				return true
			}
			for _, field := range body.Fields.List {
				text := field.Doc.Text() + field.Comment.Text()
				for _, id := range field.Names {
					comments[spec.Name.Name+"."+id.Name] = strings.Join(strings.Fields(text), " ")
				}
			}
			return true
		})
	}
	return comments
}
