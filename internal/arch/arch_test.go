// Package arch keeps the house in shape: it fails when a package imports what
// its room must not, and says why it must not.
package arch

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/llmgov/llmgov"

// rule is what the non-test code of a package may import, beside the standard
// library.
type rule struct {
	may    []string // packages of the module, and other modules' prefixes
	not    []string // of the standard library
	reason string
}

var rules = map[string]rule{
	"escrow": {
		may:    []string{"internal/muldiv"},
		not:    []string{"net", "net/http", "os", "log", "log/slog", "sync", "sync/atomic", "context"},
		reason: "the core is pure: no clock, goroutine, lock or I/O",
	},
	"escrow/lengths": {
		not:    []string{"net", "net/http", "os", "log", "log/slog", "sync", "sync/atomic", "context", "time"},
		reason: "an estimator is told what happened, and knows no clock",
	},
	"escrow/adaptive": {
		not:    []string{"net", "net/http", "os", "log", "log/slog", "sync", "sync/atomic", "context"},
		reason: "an estimator is told what happened and when, and has no clock",
	},
	"escrow/budget": {
		not:    []string{"net", "net/http", "os", "log", "log/slog", "sync", "sync/atomic", "context"},
		reason: "the core is pure: no clock, goroutine, lock or I/O",
	},
	"escrow/limits/shape": {
		may:    []string{"escrow", "internal/muldiv"},
		not:    []string{"net", "net/http", "os", "log", "log/slog", "sync", "sync/atomic", "context"},
		reason: "the core is pure: no clock, goroutine, lock or I/O",
	},
	"escrow/slots": {
		may:    []string{"escrow", "escrow/adaptive", "internal/maxmin", "internal/muldiv"},
		not:    []string{"net", "net/http", "os", "log", "log/slog", "sync", "sync/atomic", "context"},
		reason: "the core is pure: a gateway and a simulation go by the same rules",
	},
	"escrow/limits": {
		may:    []string{"escrow", "escrow/limits/shape"},
		not:    []string{"net", "net/http", "os", "log", "log/slog", "sync", "sync/atomic", "context"},
		reason: "the core is pure: no clock, goroutine, lock or I/O",
	},
	"escrow/placement": {
		may:    []string{"escrow", "escrow/limits", "internal/affinity"},
		not:    []string{"net", "net/http", "os", "log", "log/slog", "sync", "sync/atomic", "context"},
		reason: "the core is pure: no clock, goroutine, lock or I/O",
	},
	"escrow/fairness": {
		may:    []string{"escrow", "internal/maxmin"},
		not:    []string{"net", "net/http", "os", "log", "log/slog", "sync", "sync/atomic", "context"},
		reason: "a measure is told what happened, and decides nothing",
	},
	"federation/internal/gobs": {
		not:    []string{"net", "net/http", "os", "log", "log/slog", "context"},
		reason: "what is read is bytes, and who keeps them is elsewhere",
	},
	"federation/internal/envelope": {
		may:    []string{"federation/internal/gobs"},
		not:    []string{"net", "net/http", "os", "log", "log/slog", "sync", "sync/atomic", "context"},
		reason: "what is written down is bytes, and who keeps them is elsewhere",
	},
	"federation": {
		may:    []string{"escrow", "federation/internal/envelope"},
		not:    []string{"net", "net/http", "os", "log", "log/slog", "sync", "sync/atomic", "context"},
		reason: "the protocol is pure: what runs it, and what stores keep, are below it",
	},
	"federation/parts": {
		may:    []string{"federation/internal/envelope", "internal/maxmin"},
		not:    []string{"net", "net/http", "os", "log", "log/slog", "sync", "sync/atomic", "context"},
		reason: "the protocol is pure: what runs it, and what stores keep, are beside it",
	},
	"federation/claims": {
		may:    []string{"escrow", "escrow/adaptive", "escrow/slots", "federation/parts", "internal/maxmin"},
		not:    []string{"net", "net/http", "os", "log", "log/slog", "sync", "sync/atomic", "context"},
		reason: "demands become claims, and answers grants, whoever has the pool and whatever carries the letters",
	},
	"federation/memory": {
		may:    []string{"federation", "federation/parts"},
		not:    []string{"net", "net/http", "os", "log", "log/slog"},
		reason: "a store in memory is a lock around accounts",
	},
	"federation/postgres": {
		may:    []string{"federation", "federation/internal/gobs", "federation/parts", "github.com/jackc/pgx/v5"},
		not:    []string{"net/http", "os", "log", "log/slog"},
		reason: "a store keeps accounts, and does not know what they are for",
	},
	"federation/redis": {
		may:    []string{"federation", "federation/parts", "github.com/redis/go-redis/v9"},
		not:    []string{"net/http", "log", "log/slog"},
		reason: "a store keeps accounts, and does not know what they are for",
	},
	"federation/runner": {
		may:    []string{"federation", "federation/parts"},
		not:    []string{"net", "net/http", "os", "log", "log/slog"},
		reason: "what runs the protocol is told of pools and stores, and returns what went wrong",
	},
	"internal/testkit": {
		reason: "how much is tested does not depend on the subject",
	},
	"internal/testkit/pgtest": {
		may:    []string{"internal/testkit"},
		reason: "a server for tests is another program",
	},
	"internal/testkit/redistest": {
		may:    []string{"internal/testkit"},
		reason: "a server for tests is another program",
	},
	"internal/testkit/pipenet": {
		reason: "a network for tests knows nothing of what runs over it",
	},
	"internal/testkit/admissiontest": {
		may:    []string{"governor", "internal/admission", "internal/policy", "internal/telemetry", "tenants"},
		reason: "tests of doors share one way to what they stand before",
	},
	"internal/testkit/processtest": {
		may:    []string{"internal/mock", "internal/testkit"},
		reason: "the process that is tested is another program, and so is the model server behind it",
	},
	"internal/testkit/leaktest": {
		may:    []string{"go.uber.org/goleak"},
		reason: "fails packages whose tests leave goroutines behind",
	},
	"internal/testkit/doctable": {
		reason: "a table on a page is text, whatever suite it is of",
	},
	"internal/testkit/mutation": {
		reason: "what is broken and tested is another program",
	},
	"internal/testkit/storetest": {
		may:    []string{"federation", "federation/parts", "federation/runner", "internal/testkit", "github.com/anishathalye/porcupine", "github.com/google/go-cmp/cmp"},
		not:    []string{"net", "net/http", "os", "log", "log/slog"},
		reason: "a suite sees stores as their callers do",
	},
	"internal/testkit/wallclock": {
		reason: "the process whose clock is stepped is another program",
	},
	"governor": {
		may:    []string{"escrow", "escrow/adaptive", "escrow/lengths", "escrow/budget", "escrow/fairness", "escrow/limits", "escrow/placement", "escrow/slots", "governor/internal/penalty", "internal/muldiv"},
		not:    []string{"net/http", "log", "log/slog", "os"},
		reason: "an embeddable library knows no HTTP, no store and no other process: it says what it demands, and is told what it may use",
	},
	"governor/internal/penalty": {
		not:    []string{"net", "net/http", "os", "log", "log/slog", "sync", "sync/atomic", "context"},
		reason: "a rule is told how calls end, and has no clock and no lock",
	},
	"governor/sharing": {
		may:    []string{"governor", "escrow", "escrow/limits", "federation", "federation/claims", "federation/parts", "federation/runner"},
		not:    []string{"net", "net/http", "log", "log/slog", "os", "sync", "sync/atomic", "context"},
		reason: "demands become claims, and answers grants: the governor has the locks, and the runner the store",
	},
	"governor/client": {
		may:    []string{"governor", "governor/tokens"},
		not:    []string{"log", "log/slog", "os"},
		reason: "a client does not know whether its governor is in this process, and builds without stores and policy files",
	},
	"governor/embedded": {
		may:    []string{"governor/client", "internal/admin", "internal/adminview", "internal/console", "internal/inprocess", "internal/instance", "tenants", "golang.org/x/sync"},
		reason: "a governor in a program is an instance with a door for that program, and wires nothing anew",
	},
	"governor/govhttp": {
		may: []string{
			"escrow", "governor/client", "streaming", "internal/admission", "internal/bearer", "internal/splice",
			"internal/gateway/describe", "internal/gateway/dialect", "internal/gateway/head", "internal/gateway/route",
		},
		not:    []string{"log", "log/slog", "os"},
		reason: "calls over HTTP are read as the gateway reads them, and admitted by whichever governor the client has",
	},
	"governor/tokens": {
		may:    []string{"internal/jsonscan"},
		not:    []string{"net/http", "os"},
		reason: "estimators only count",
	},
	"governor/tokens/bpe": {
		may:    []string{"governor/tokens", "github.com/tidwall/gjson", "github.com/tiktoken-go/tokenizer"},
		not:    []string{"net/http", "os"},
		reason: "a counter only counts, and who embeds the governor need not have its vocabularies",
	},
	"internal/cancel": {
		not:    []string{"net", "net/http", "os", "log", "log/slog", "time"},
		reason: "a context does not know what ends with it",
	},
	"internal/http1": {
		may:    []string{"internal/cancel", "internal/socket"},
		not:    []string{"os/exec", "log", "log/slog", "encoding/json"},
		reason: "a transport does not know what is said in bodies, nor who calls",
	},
	"internal/http1/plain": {
		may:    []string{"internal/cancel", "internal/http1", "internal/socket"},
		not:    []string{"os/exec", "log/slog", "encoding/json"},
		reason: "a server does not know what is said in bodies, nor who calls",
	},
	"internal/socket": {
		not:    []string{"net/http", "log", "log/slog", "sync", "context"},
		reason: "a socket carries bytes, for one reader and one writer",
	},
	"internal/jsonscan": {
		may:    []string{"golang.org/x/sys/cpu"},
		not:    []string{"net", "net/http", "os", "log", "log/slog", "sync", "sync/atomic", "context", "time"},
		reason: "a scanner reads bytes, and does not know what they are for",
	},
	"internal/muldiv": {
		not:    []string{"net", "net/http", "os", "log", "log/slog", "sync", "sync/atomic", "context", "time"},
		reason: "arithmetic",
	},
	"internal/maxmin": {
		not:    []string{"net", "net/http", "os", "log", "log/slog", "sync", "sync/atomic", "context", "time"},
		reason: "a division is arithmetic: measures, ledgers and policies all use it",
	},
	"internal/answers": {
		not:    []string{"net", "os", "log", "log/slog", "sync", "sync/atomic", "context", "time"},
		reason: "what may be passed on is decided by the answer alone",
	},
	"tenants": {
		may:    []string{"presets", "tenants/keyfile", "tenants/internal/disk", "tenants/internal/glob", "internal/maxmin", "internal/strictyaml", "github.com/knadh/koanf"},
		not:    []string{"net/http"},
		reason: "policies do not know who enforces them",
	},
	"tenants/keyfile": {
		may:    []string{"internal/strictyaml", "tenants/internal/disk"},
		not:    []string{"net", "net/http", "log", "log/slog"},
		reason: "a file of keys does not know whose they may be",
	},
	"tenants/internal/glob": {
		not:    []string{"net", "net/http", "os", "log", "log/slog", "sync", "context", "time"},
		reason: "patterns are texts",
	},
	"tenants/internal/disk": {
		may:    []string{"internal/strictyaml", "github.com/fsnotify/fsnotify"},
		not:    []string{"net", "net/http", "log", "log/slog"},
		reason: "files are read without knowing what they say",
	},
	"presets": {
		not:    []string{"net", "net/http", "os"},
		reason: "presets are texts, and what reads them is elsewhere",
	},
	"dashboards": {
		not:    []string{"net", "net/http", "os"},
		reason: "dashboards are texts that are made of names, and what writes them is elsewhere",
	},
	"cmd/llmgov/report": {
		may:    []string{"tenants", "internal/adminapi"},
		not:    []string{"net", "net/http", "os"},
		reason: "a report is text made of a policy or of an answer, and whoever got these is elsewhere",
	},
	"cmd/llmgov/litellm": {
		may:    []string{"tenants", "tenants/keyfile", "go.yaml.in/yaml/v3"},
		not:    []string{"net", "net/http", "os"},
		reason: "an import turns one text into others, and writes nothing",
	},
	"streaming": {
		may:    []string{"internal/jsonscan"},
		not:    []string{"net/http"},
		reason: "a stream's meter knows no tenants and no stores",
	},
	"internal/mock": {
		may:    []string{"internal/mock/batch", "github.com/tidwall/gjson", "github.com/coder/websocket"},
		reason: "what the product is tested against shares nothing with it",
	},
	"internal/telemetry": {
		may:    []string{"governor", "escrow", "github.com/prometheus/client_golang"},
		reason: "metrics read the governor's books and nothing else",
	},
	"internal/tracing": {
		may:    []string{"go.opentelemetry.io/otel", "github.com/go-logr/logr"},
		reason: "spans are made of what they are told, and OpenTelemetry stays behind this door",
	},
	"internal/strictyaml": {
		may:    []string{"go.yaml.in/yaml/v3"},
		not:    []string{"net", "net/http", "os"},
		reason: "a reader of texts knows nothing of where they come from, or what they mean",
	},
	"internal/distribution": {
		may:    []string{"internal/strictyaml"},
		not:    []string{"net", "net/http", "os"},
		reason: "a distribution is drawn from what it is given",
	},
	"internal/htmlpage": {
		not:    []string{"net", "net/http", "os"},
		reason: "a page is made of its parts, and does not know what it shows",
	},
	"internal/console": {
		may:    []string{"internal/htmlpage"},
		not:    []string{"os", "encoding/json"},
		reason: "the console is files for a browser; all that it shows comes from the admin side",
	},
	"internal/load": {
		may: []string{
			"streaming", "internal/strictyaml", "internal/distribution", "internal/htmlpage", "github.com/tidwall/gjson",
			"github.com/HdrHistogram/hdrhistogram-go",
		},
		not:    []string{"os"},
		reason: "a load generator sees the gateway as its clients do, from outside",
	},
	"internal/simulate": {
		may: []string{
			"escrow", "escrow/adaptive", "escrow/lengths", "escrow/limits", "escrow/placement", "escrow/fairness", "escrow/slots",
			"federation", "internal/affinity", "federation/claims", "federation/parts", "internal/simulate/scenario",
			"golang.org/x/sync",
		},
		not:    []string{"net", "net/http", "os"},
		reason: "a simulation drives the core alone: no governor, no clock",
	},
	"internal/simulate/scenario": {
		may:    []string{"escrow", "escrow/adaptive", "escrow/placement", "internal/distribution", "internal/strictyaml"},
		not:    []string{"net", "net/http", "sync", "context"},
		reason: "a scenario says what is asked for, and plays nothing",
	},
	"internal/simulate/report": {
		may:    []string{"internal/simulate", "internal/simulate/scenario", "escrow", "internal/htmlpage", "internal/strictyaml"},
		not:    []string{"net", "net/http", "os"},
		reason: "a report shows a result, and computes none",
	},
	"internal/top": {
		may:    []string{"internal/adminapi", "charm.land/bubbletea/v2", "charm.land/lipgloss/v2", "github.com/charmbracelet/x/ansi"},
		not:    []string{"net", "net/http", "os", "log", "log/slog"},
		reason: "a picture is made of what it is told, and asks through a function",
	},
	"internal/durable": {
		may:    []string{"governor", "go.etcd.io/bbolt"},
		not:    []string{"net", "net/http"},
		reason: "what is kept on disk knows the governor's records, and not what they are for",
	},
	"internal/affinity": {
		not:    []string{"net", "net/http", "os", "log", "log/slog", "sync", "sync/atomic", "context", "time"},
		reason: "a choice by a hash",
	},
	"internal/upstreams": {
		may:    []string{"internal/affinity"},
		not:    []string{"net", "os", "log", "log/slog", "context"},
		reason: "what is believed of upstreams is decided by what is told, at the time that is told",
	},
	"internal/splice": {
		not:    []string{"net", "net/http", "os", "log", "log/slog", "sync", "sync/atomic", "context", "time"},
		reason: "bytes are edited without knowing whose they are",
	},
	"internal/gateway/head": {
		may:    []string{"governor/tokens", "internal/form", "internal/jsonscan", "internal/splice", "internal/text", "github.com/cespare/xxhash/v2", "github.com/tidwall/gjson"},
		not:    []string{"net", "os", "log", "log/slog", "sync", "sync/atomic", "context", "time"},
		reason: "a request is read without knowing who sent it, and what is done with it",
	},
	"internal/gateway/dialect": {
		may:    []string{"governor", "governor/tokens", "internal/admission", "internal/gateway/head", "internal/rateheaders", "internal/upstreams", "tenants"},
		not:    []string{"net", "os", "log", "log/slog", "sync", "sync/atomic", "context"},
		reason: "a protocol is a value: what is done with it is elsewhere",
	},
	"internal/gateway/route": {
		may:    []string{"internal/gateway/dialect", "internal/objects", "tenants"},
		not:    []string{"net", "os", "log", "log/slog", "sync", "sync/atomic", "context", "time"},
		reason: "a route is found by method and path alone",
	},
	"internal/gateway/describe": {
		may:    []string{"escrow", "internal/admission", "internal/gateway/dialect", "internal/gateway/head", "internal/splice", "internal/text", "tenants"},
		not:    []string{"net", "os", "log", "log/slog", "sync", "sync/atomic", "context"},
		reason: "a call is described by its request alone",
	},
	"internal/envoy/extproc": {
		may: []string{
			"governor", "governor/tokens", "internal/admission", "internal/answers", "internal/bearer", "internal/events", "internal/gateway/describe",
			"internal/gateway/dialect", "internal/gateway/head", "internal/gateway/route", "internal/inflight", "internal/rateheaders", "internal/splice", "internal/telemetry", "internal/text", "streaming",
			"github.com/envoyproxy/go-control-plane/envoy", "google.golang.org/grpc", "google.golang.org/protobuf",
		},
		not:    []string{"net", "os"},
		reason: "a proxy's call is the same call as one over HTTP: it only comes by another door",
	},
	"internal/envoy/ratelimit": {
		may:    []string{"governor/client", "internal/admission", "internal/gateway/dialect", "internal/reserve", "github.com/envoyproxy/go-control-plane/envoy", "google.golang.org/grpc", "google.golang.org/protobuf"},
		not:    []string{"net", "os", "log", "log/slog"},
		reason: "descriptors become reservations, which are kept elsewhere",
	},
	"internal/explain": {
		may:    []string{"governor", "internal/adminapi", "internal/admission", "internal/policy", "internal/text", "tenants"},
		not:    []string{"net", "os", "log", "log/slog"},
		reason: "an explanation asks the governor and changes nothing",
	},
	"internal/gateway/relay": {
		may:    []string{"streaming"},
		not:    []string{"net", "os", "log", "log/slog"},
		reason: "an answer is passed on whatever it says, and whoever it is for",
	},
	"internal/gateway/usage": {
		may:    []string{"governor", "internal/admission", "tenants"},
		not:    []string{"net", "net/http", "os", "log", "log/slog"},
		reason: "a view is read from books, and whoever asks for it is elsewhere",
	},
	"internal/gateway/upstream": {
		may:    []string{"internal/answers", "internal/gateway/dialect", "internal/gateway/route", "internal/objects", "tenants", "github.com/tidwall/gjson"},
		not:    []string{"net", "os", "log", "log/slog"},
		reason: "a provider is reached without knowing for whom",
	},
	"internal/gateway/stored": {
		may: []string{
			"governor", "governor/tokens", "internal/admission", "internal/form", "internal/gateway/head", "internal/gateway/route", "internal/objects",
			"internal/splice", "internal/telemetry", "internal/text", "streaming", "tenants", "github.com/tidwall/gjson",
		},
		not:    []string{"net", "os", "log", "log/slog"},
		reason: "objects are recorded and charged without sending anything: the call asks the upstream",
	},
	"internal/gateway/realtime": {
		may: []string{
			"governor", "governor/tokens", "internal/admission", "internal/gateway/head", "internal/telemetry", "internal/text", "streaming",
			"github.com/tidwall/gjson", "github.com/coder/websocket",
		},
		not:    []string{"net", "os", "log", "log/slog"},
		reason: "a session sees the call by which it was opened through an interface",
	},
	"internal/form": {
		may:    []string{"internal/splice", "internal/text"},
		not:    []string{"net", "net/http", "mime/multipart", "os", "log", "log/slog", "context", "time"},
		reason: "a form is bytes, and what its fields decide is elsewhere",
	},
	"internal/objects": {
		may:    []string{"go.etcd.io/bbolt"},
		not:    []string{"net", "net/http"},
		reason: "who made what is kept without knowing what it is for",
	},
	"internal/events": {
		may:    []string{"governor"},
		not:    []string{"net", "net/http", "os", "log", "log/slog", "encoding/json"},
		reason: "whoever listens, and however it is told: nobody slows admission down",
	},
	"internal/decisions": {
		may:    []string{"governor", "escrow"},
		not:    []string{"net", "net/http"},
		reason: "what was decided is written down as the governor tells it",
	},
	"internal/plan": {
		may:    []string{"governor", "tenants", "internal/decisions", "internal/muldiv", "internal/policy"},
		not:    []string{"net", "net/http", "os", "math/rand", "math/rand/v2"},
		reason: "a replay depends on the record and the policy, and on nothing else",
	},
	"internal/policy": {
		may:    []string{"tenants", "governor", "escrow", "escrow/adaptive", "escrow/budget", "escrow/limits", "escrow/limits/shape"},
		not:    []string{"net", "net/http", "os", "log", "log/slog", "sync", "context", "time"},
		reason: "rules are made of a policy, and of nothing else",
	},
	"internal/history": {
		not:    []string{"net", "net/http", "os", "log", "log/slog", "encoding/json"},
		reason: "a history keeps what it is given, and does not know who shows it",
	},
	"internal/text": {
		not:    []string{"net", "net/http", "os", "log", "log/slog", "sync", "context", "time"},
		reason: "a text is cut without knowing what it says",
	},
	"internal/adminapi": {
		may:    []string{"internal/text"},
		not:    []string{"net", "net/http", "os", "log", "log/slog", "context", "sync"},
		reason: "types of answers do nothing",
	},
	"internal/connections": {
		not:    []string{"net/http", "os", "log", "log/slog"},
		reason: "connections are counted without knowing what is sent on them",
	},
	"internal/logging": {
		not:    []string{"net", "net/http", "os"},
		reason: "lines are gathered without knowing what they say, or where they go",
	},
	"internal/mock/batch": {
		not:    []string{"net", "net/http", "os", "log", "log/slog"},
		reason: "a batch is simulated without knowing how calls come",
	},
	"internal/engine": {
		may:    []string{"internal/text", "github.com/prometheus/client_model", "github.com/prometheus/common", "golang.org/x/sync"},
		reason: "servers are read without knowing which limits go by what they say",
	},
	"internal/inflight": {
		not:    []string{"net", "net/http", "os", "log", "log/slog", "time"},
		reason: "calls are counted without knowing by which door they came",
	},
	"internal/sampled": {
		not:    []string{"net", "net/http", "os", "log", "log/slog"},
		reason: "what may be logged is decided without logging it",
	},
	"internal/recent": {
		not:    []string{"net", "net/http", "os", "log", "log/slog", "time"},
		reason: "a memory does not know what it remembers",
	},
	"internal/rateheaders": {
		may:    []string{"governor"},
		not:    []string{"net", "os", "log", "log/slog"},
		reason: "headers show what the governor says, by whichever door it was asked",
	},
	"internal/inprocess": {
		may:    []string{"escrow", "governor", "governor/client", "internal/admission", "internal/rateheaders", "internal/telemetry", "streaming"},
		not:    []string{"net", "os", "log", "log/slog"},
		reason: "a call of a program is the same call as one over HTTP: it only comes by another door",
	},
	"governor/remote/admissionv1": {
		may:    []string{"google.golang.org/grpc", "google.golang.org/protobuf"},
		reason: "a protocol is generated from its description",
	},
	"governor/remote": {
		may:    []string{"governor/client", "governor/remote/admissionv1", "governor/tokens", "google.golang.org/grpc", "google.golang.org/protobuf"},
		not:    []string{"os", "log"},
		reason: "a program that asks another one has no governor of its own",
	},
	"internal/reserve": {
		may:    []string{"governor/client", "internal/admission", "internal/inflight", "internal/rateheaders"},
		not:    []string{"net", "os", "log", "log/slog", "encoding/json"},
		reason: "reservations are kept without knowing by which protocol they are made",
	},
	"internal/reserveserver": {
		may: []string{
			"governor/client", "governor/remote/admissionv1", "governor/tokens", "internal/admission", "internal/admissionserver", "internal/gateway/dialect", "internal/jsonscan", "internal/rateheaders", "internal/reserve",
			"google.golang.org/grpc", "google.golang.org/protobuf",
		},
		not:    []string{"net", "os", "log", "log/slog"},
		reason: "a protocol says what is asked, and the book decides",
	},
	"internal/adminview": {
		may:    []string{"governor", "internal/adminapi", "internal/admission", "internal/explain", "tenants", "tenants/keyfile"},
		not:    []string{"net", "os", "log", "log/slog"},
		reason: "the admin side sees what admits calls, whichever door the calls come by",
	},
	"internal/instance": {
		may: []string{
			"internal/admin", "internal/adminapi", "internal/admission", "internal/decisions", "internal/durable", "internal/engine", "internal/events", "internal/policy", "internal/sampled", "internal/telemetry",
			"federation", "federation/postgres", "federation/redis", "federation/runner", "governor", "governor/sharing", "tenants", "golang.org/x/sync",
		},
		not:    []string{"net", "net/http"},
		reason: "an instance has no listener and no gateway: whoever opens it has doors of its own",
	},
	"internal/intake": {
		not:    []string{"net", "net/http", "os", "log", "log/slog"},
		reason: "memory is handed out without knowing what arrives in it, or from where",
	},
	"internal/bearer": {
		not:    []string{"os", "log", "log/slog", "sync", "context", "time"},
		reason: "a credential is read without knowing what it opens",
	},
	"internal/crash": {
		not:    []string{"net", "os", "log", "log/slog"},
		reason: "a panic is judged by its stack alone",
	},
	"internal/admissionserver": {
		may:    []string{"internal/bearer", "internal/connections", "internal/crash", "internal/rateheaders", "internal/sampled", "internal/text", "golang.org/x/sync", "google.golang.org/grpc", "google.golang.org/protobuf"},
		not:    []string{"os"},
		reason: "a listener knows who calls, and not what is asked of its services",
	},
	"internal/readiness": {
		not:    []string{"os", "log", "log/slog"},
		reason: "whether to leave the balancer depends on what other gateways say, and on nothing else of this one",
	},
	"internal/admin": {
		may: []string{
			"internal/bearer", "internal/crash", "internal/adminapi", "internal/text", "internal/connections", "internal/jsonscan", "internal/readiness", "internal/sampled", "internal/events", "internal/history",
			"governor", "escrow", "escrow/adaptive", "tenants", "tenants/keyfile",
		},
		reason: "the admin side sees the gateway through an interface of its own",
	},
	"internal/admission": {
		may: []string{
			"governor", "governor/tokens", "escrow", "escrow/lengths", "tenants", "tenants/keyfile", "streaming", "internal/policy", "internal/telemetry", "internal/tracing",
			"internal/history", "internal/recent", "internal/text",
		},
		not:    []string{"net", "net/http", "os", "log", "log/slog", "encoding/json"},
		reason: "the life of a call does not know by which protocol its caller speaks",
	},
	"internal/gateway": {
		may: []string{
			"internal/text", "internal/bearer", "internal/cancel", "internal/crash",
			"internal/connections", "internal/http1", "internal/intake", "internal/logging", "internal/rateheaders", "internal/recent", "internal/sampled",
			"internal/admission", "internal/policy", "governor", "governor/tokens", "escrow", "escrow/lengths", "tenants", "tenants/keyfile", "streaming", "internal/telemetry",
			"internal/tracing", "internal/form", "internal/splice", "internal/gateway/head", "internal/gateway/describe", "internal/gateway/dialect", "internal/gateway/realtime", "internal/gateway/relay", "internal/gateway/route", "internal/gateway/stored", "internal/gateway/upstream", "internal/gateway/usage", "internal/adminview", "internal/objects", "internal/answers", "internal/affinity", "internal/upstreams", "internal/events", "internal/history", "internal/adminapi",
			"github.com/tidwall/gjson", "github.com/coder/websocket",
		},
		reason: "the request path calls no network store",
	},
}

// free may import everything: they wire, or only test.
var free = map[string]bool{"cmd/llmgov": true, "internal/arch": true, "internal/bench": true, "internal/readers": true, "internal/versus": true}

// below these folders packages may import everything.
var freeFolders = []string{"internal/e2e"}

func TestNoForbiddenImports(t *testing.T) {
	for _, p := range list(t) {
		room := strings.TrimPrefix(p.ImportPath, module+"/")
		if free[room] || slices.ContainsFunc(freeFolders, func(f string) bool { return room == f || strings.HasPrefix(room, f+"/") }) {
			continue
		}
		r, ok := rules[room]
		if !ok {
			t.Errorf("%s has no rule: add it to this test, with what it may import and why", room)
			continue
		}
		for _, path := range p.Imports {
			if !allowed(r, path) {
				t.Errorf("%s imports %s, but %s", room, path, r.reason)
			}
		}
	}
}

// Every room explains itself in a doc.go, or its one file does.
func TestEveryRoomExplainsItself(t *testing.T) {
	for _, p := range list(t) {
		if p.Doc == "" && len(p.GoFiles) > 0 {
			t.Errorf("%s has no package comment", p.ImportPath)
		}
	}
}

func allowed(r rule, path string) bool {
	inModule, own := strings.CutPrefix(path, module+"/")
	if own {
		return slices.Contains(r.may, inModule)
	}
	first, _, _ := strings.Cut(path, "/")
	if !strings.Contains(first, ".") { // standard library
		return !slices.Contains(r.not, path)
	}
	for _, prefix := range r.may {
		if path == prefix || strings.HasPrefix(path, prefix+"/") {
			return true
		}
	}
	return false
}

type pkg struct {
	ImportPath string
	Doc        string
	GoFiles    []string
	Imports    []string
}

func list(t *testing.T) []pkg {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Doc,GoFiles,Imports", module+"/...")
	cmd.Dir = "../.."
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var all []pkg
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}
