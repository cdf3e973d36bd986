// Package arch keeps the house in shape: it fails when a package imports what
// its room must not, and says why it must not.
package arch

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/llmgov/llmgov/internal/test/testkit"
)

const module = "github.com/llmgov/llmgov"

// rule is what the non-test code of a package may import, beside the standard
// library.
type rule struct {
	room   string
	may    string // packages of the module, and other modules' prefixes
	not    string // of the standard library
	reason string
}

// Packages of the standard library that many rooms must not import.
const (
	deaf     = "net os log log/slog"
	silent   = deaf + " net/http"
	pure     = silent + " sync sync/atomic context"
	timeless = pure + " time"
)

var rules = []rule{
	{"escrow", "escrow/penalty internal/lib/muldiv", pure, "the core is pure: no clock, goroutine, lock or I/O"},
	{"escrow/lengths", "", timeless, "an estimator is told what happened, and knows no clock"},
	{"escrow/adaptive", "", pure, "an estimator is told what happened and when, and has no clock"},
	{"escrow/budget", "", pure, "the core is pure: no clock, goroutine, lock or I/O"},
	{"escrow/limits/shape", "escrow internal/lib/muldiv", pure, "the core is pure: no clock, goroutine, lock or I/O"},
	{"escrow/slots", "escrow escrow/adaptive internal/lib/maxmin internal/lib/muldiv", pure, "the core is pure: a gateway and a simulation go by the same rules"},
	{"escrow/limits", "escrow escrow/limits/shape", pure, "the core is pure: no clock, goroutine, lock or I/O"},
	{"escrow/placement", "escrow escrow/limits internal/lib/affinity", pure, "the core is pure: no clock, goroutine, lock or I/O"},
	{"escrow/fairness", "escrow internal/lib/maxmin", pure, "a measure is told what happened, and decides nothing"},
	{"federation/internal/gobs", "", "net net/http os log log/slog context", "what is read is bytes, and who keeps them is elsewhere"},
	{"federation/internal/envelope", "federation/internal/gobs", pure, "what is written down is bytes, and who keeps them is elsewhere"},
	{"federation", "escrow federation/internal/envelope", pure, "the protocol is pure: what runs it, and what stores keep, are below it"},
	{"federation/parts", "federation/internal/envelope internal/lib/maxmin", pure, "the protocol is pure: what runs it, and what stores keep, are beside it"},
	{"federation/claims", "escrow escrow/adaptive escrow/slots federation/parts internal/lib/maxmin", pure, "demands become claims, and answers grants, whoever has the pool and whatever carries the letters"},
	{"federation/memory", "federation federation/parts", silent, "a store in memory is a lock around accounts"},
	{"federation/spend", "", silent, "sums are kept by whoever is told of them"},
	{"federation/store", "federation federation/runner federation/spend", "net net/http os log log/slog sync sync/atomic", "a program has the stores that it links, as database/sql has it"},
	{"federation/postgres", "federation federation/spend federation/store federation/internal/gobs federation/parts github.com/jackc/pgx/v5", "net/http os log log/slog", "a store keeps accounts, and does not know what they are for"},
	{"federation/redis", "federation federation/spend federation/store federation/parts internal/lib/certs github.com/redis/go-redis/v9", "net/http log log/slog", "a store keeps accounts, and does not know what they are for"},
	{"federation/runner", "federation federation/parts", silent, "what runs the protocol is told of pools and stores, and returns what went wrong"},
	{"internal/test/testkit", "github.com/google/go-cmp/cmp github.com/klauspost/compress", "", "how much is tested does not depend on the subject"},
	{"internal/test/testkit/pgtest", "internal/test/testkit", "", "a server for tests is another program"},
	{"internal/test/testkit/redistest", "internal/test/testkit", "", "a server for tests is another program"},
	{"internal/test/testkit/pipenet", "", "", "a network for tests knows nothing of what runs over it"},
	{"internal/test/testkit/admissiontest", "governor internal/run/admission internal/run/policy internal/ops/telemetry tenants", "", "tests of doors share one way to what they stand before"},
	{"internal/test/testkit/processtest", "internal/lab/mock internal/test/testkit", "", "the process that is tested is another program, and so is the model server behind it"},
	{"internal/test/testkit/leaktest", "go.uber.org/goleak", "", "fails packages whose tests leave goroutines behind"},
	{"internal/test/testkit/doctable", "", "", "a table on a page is text, whatever suite it is of"},
	{"internal/test/testkit/mutation", "", "", "what is broken and tested is another program"},
	{"internal/test/testkit/storetest", `federation federation/parts federation/runner federation/spend federation/store internal/test/testkit github.com/anishathalye/porcupine github.com/google/go-cmp/cmp`, silent, "a suite sees stores as their callers do"},
	{"internal/test/testkit/wallclock", "", "", "the process whose clock is stepped is another program"},
	{"governor/terms", "escrow escrow/adaptive escrow/budget escrow/limits escrow/limits/shape escrow/placement escrow/slots", pure, "values are read from policies, and enforced, elsewhere"},
	{"governor/refusal", "governor/terms escrow escrow/budget escrow/limits", pure, "a refusal is its figures and the words for them"},
	{"governor/record", "governor/terms escrow escrow/budget escrow/lengths escrow/limits", pure, "what outlives a process is values and their sums: who keeps them, and who begins with them, is elsewhere"},
	{"governor", `governor/record governor/refusal governor/terms escrow escrow/adaptive escrow/lengths escrow/budget escrow/fairness escrow/limits escrow/placement escrow/slots
		internal/lib/muldiv`, "net/http log log/slog os", "an embeddable library knows no HTTP, no store and no other process: it says what it demands, and is told what it may use"},
	{"escrow/penalty", "", pure, "a rule is told how calls end, and has no clock and no lock"},
	{"governor/sharing", "governor escrow escrow/limits federation federation/claims federation/parts federation/runner", "net net/http log log/slog os sync sync/atomic context", "demands become claims, and answers grants: the governor has the locks, and the runner the store"},
	{"governor/client/internal/implement", "", timeless, "it hands on what it cannot name"},
	{"governor/client/doors", "governor/client governor/client/internal/implement", "log os", "whoever implements a way to a governor needs the words of its users, and no governor"},
	{"governor/client", "governor governor/client/internal/implement governor/tokens", "log os", "a client does not know whether its governor is in this process, and builds without stores and policy files"},
	{"governor/embedded", `federation/store governor/client governor/client/doors internal/ops/admin internal/run/adminview internal/ops/console internal/doors/inprocess internal/run/instance governor/terms tenants golang.org/x/sync`, "", "a governor in a program is an instance with a door for that program, and wires nothing anew"},
	{"governor/govhttp", `escrow governor/client governor/tokens streaming internal/run/admission/ask internal/lib/bearer internal/lib/encoded internal/lib/splice internal/proxy/gateway/describe internal/proxy/gateway/dialect
		internal/proxy/answers internal/proxy/gateway/head internal/proxy/upstreams`, "log log/slog os", "calls over HTTP are read as the gateway reads them, and admitted by whichever governor the client has"},
	{"governor/tokens", "internal/lib/jsonscan", "net/http os", "estimators only count"},
	{"governor/tokens/bpe", "governor/tokens github.com/dlclark/regexp2 github.com/tidwall/gjson github.com/tiktoken-go/tokenizer", "net/http os", "a counter only counts, and who embeds the governor need not have its vocabularies"},
	{"internal/lib/cancel", "", "net net/http os log log/slog time", "a context does not know what ends with it"},
	{"internal/lib/http1", "internal/lib/cancel internal/lib/socket", "os/exec log log/slog encoding/json", "a transport does not know what is said in bodies, nor who calls"},
	{"internal/lib/http1/plain", "internal/lib/cancel internal/lib/http1 internal/lib/socket", "os/exec log/slog encoding/json", "a server does not know what is said in bodies, nor who calls"},
	{"internal/lib/socket", "", "net/http log log/slog sync context", "a socket carries bytes, for one reader and one writer"},
	{"internal/lib/jsonscan", "golang.org/x/sys/cpu", timeless, "a scanner reads bytes, and does not know what they are for"},
	{"internal/lib/muldiv", "", timeless, "arithmetic"},
	{"internal/lib/maxmin", "", timeless, "a division is arithmetic: measures, ledgers and policies all use it"},
	{"internal/proxy/answers", "internal/lib/encoded", "net os log log/slog sync sync/atomic context time", "what may be passed on is decided by the answer alone"},
	{"tenants", `governor/terms presets tenants/keyfile tenants/internal/disk tenants/internal/glob internal/lib/certs internal/lib/maxmin internal/lib/strictyaml github.com/knadh/koanf`, "net/http", "policies do not know who enforces them"},
	{"tenants/keyfile", "internal/lib/atomicfile internal/lib/strictyaml tenants/internal/disk", "net net/http log log/slog", "a file of keys does not know whose they may be"},
	{"tenants/internal/glob", "", "net net/http os log log/slog sync context time", "patterns are texts"},
	{"tenants/internal/disk", "internal/lib/strictyaml github.com/fsnotify/fsnotify", "net net/http log log/slog", "files are read without knowing what they say"},
	{"presets", "", "net net/http os", "presets are texts, and what reads them is elsewhere"},
	{"dashboards", "", "net net/http os", "dashboards are texts that are made of names, and what writes them is elsewhere"},
	{"cmd/llmgov/report", "governor/terms tenants internal/ops/adminapi", "net net/http os", "a report is text made of a policy or of an answer, and whoever got these is elsewhere"},
	{"cmd/llmgov/litellm", "tenants tenants/keyfile go.yaml.in/yaml/v3", "net net/http os", "an import turns one text into others, and writes nothing"},
	{"streaming", "internal/lib/jsonscan", "", "a stream's meter knows no tenants and no stores"},
	{"internal/lab/mock", "internal/lab/mock/batch github.com/tidwall/gjson github.com/coder/websocket", "", "what the product is tested against shares nothing with it"},
	{"internal/ops/telemetry", "governor escrow github.com/prometheus/client_golang github.com/prometheus/client_model", "", "metrics read the governor's books and nothing else"},
	{"internal/ops/tracing", "go.opentelemetry.io/otel", "", "spans are made of what they are told, and OpenTelemetry stays behind this door"},
	{"internal/ops/tracing/otlp", "internal/ops/tracing go.opentelemetry.io/otel go.opentelemetry.io/contrib github.com/go-logr/logr github.com/prometheus/client_golang", "", "an exporter knows nothing of calls"},
	{"internal/lib/strictyaml", "go.yaml.in/yaml/v3", "net net/http os", "a reader of texts knows nothing of where they come from, or what they mean"},
	{"internal/lab/distribution", "internal/lib/strictyaml", "net net/http os", "a distribution is drawn from what it is given"},
	{"internal/lib/htmlpage", "", "net net/http os", "a page is made of its parts, and does not know what it shows"},
	{"internal/ops/console", "internal/lib/htmlpage", "os encoding/json", "the console is files for a browser; all that it shows comes from the admin side"},
	{"internal/lab/load", `streaming internal/lib/strictyaml internal/lab/distribution internal/lib/htmlpage github.com/tidwall/gjson github.com/HdrHistogram/hdrhistogram-go`, "os", "a load generator sees the gateway as its clients do, from outside"},
	{"internal/lab/simulate", `governor governor/sharing escrow escrow/limits escrow/limits/shape escrow/placement escrow/fairness federation internal/lib/affinity
		federation/parts federation/runner internal/lab/simulate/scenario golang.org/x/sync`, "net net/http os", "a simulation drives what decides on a time of its own, and carries the letters: no gateway, no store, no clock"},
	{"internal/lab/simulate/scenario", "governor/terms escrow escrow/adaptive escrow/placement internal/lab/distribution internal/lib/strictyaml", "net net/http sync context", "a scenario says what is asked for, and plays nothing"},
	{"internal/lab/simulate/report", "internal/lab/simulate internal/lab/simulate/scenario escrow internal/lib/htmlpage internal/lib/strictyaml", "net net/http os", "a report shows a result, and computes none"},
	{"internal/ops/top", "internal/ops/adminapi charm.land/bubbletea/v2 charm.land/lipgloss/v2 github.com/charmbracelet/x/ansi", silent, "a picture is made of what it is told, and asks through a function"},
	{"internal/run/durable", "federation/spend governor/record internal/lib/atomicfile internal/lib/rounds go.etcd.io/bbolt", "net net/http", "what is kept on disk is records, whoever makes them"},
	{"internal/lib/affinity", "", timeless, "a choice by a hash"},
	{"internal/proxy/upstreams", "escrow/limits internal/lib/affinity", "net os log log/slog context", "what is believed of upstreams is decided by what is told, at the time that is told"},
	{"internal/lib/splice", "", timeless, "bytes are edited without knowing whose they are"},
	{"internal/proxy/gateway/head", `governor/tokens internal/lib/form internal/lib/jsonscan internal/lib/splice internal/lib/text github.com/cespare/xxhash/v2 github.com/tidwall/gjson`, "net os log log/slog sync sync/atomic context time", "a request is read without knowing who sent it, and what is done with it"},
	{"internal/proxy/gateway/dialect", `governor governor/tokens internal/run/admission/ask internal/proxy/gateway/head internal/run/rateheaders internal/proxy/upstreams`, "net os log log/slog sync sync/atomic context", "a protocol is a value: what is done with it is elsewhere"},
	{"internal/proxy/gateway/route", "internal/proxy/gateway/dialect internal/proxy/objects tenants", "net os log log/slog sync sync/atomic context time", "a route is found by method and path alone"},
	{"internal/proxy/gateway/describe", "escrow internal/run/admission/ask internal/lib/encoded internal/proxy/gateway/dialect internal/proxy/gateway/head internal/lib/splice internal/lib/text internal/proxy/upstreams", "net os log log/slog sync sync/atomic context", "a call is described by its request alone"},
	{"internal/proxy/gateway/grants", "internal/run/admission internal/run/admission/ask internal/proxy/gateway/describe internal/proxy/gateway/dialect internal/proxy/gateway/head internal/lib/text tenants", deaf, "models are compared with a policy"},
	{"internal/doors/envoy/extproc", `governor governor/tokens internal/run/admission internal/run/admission/ask internal/proxy/answers internal/proxy/intake internal/lib/bearer internal/lib/encoded internal/ops/events internal/ops/logging internal/proxy/gateway/describe
		internal/proxy/gateway/dialect internal/proxy/gateway/grants internal/proxy/gateway/head internal/proxy/gateway/route internal/lib/inflight internal/run/rateheaders internal/lib/splice
		internal/ops/telemetry internal/lib/text internal/proxy/upstreams streaming github.com/envoyproxy/go-control-plane/envoy google.golang.org/grpc google.golang.org/protobuf`, "net os", "a proxy's call is the same call as one over HTTP: it only comes by another door"},
	{"internal/doors/envoy/ratelimit", `governor/client governor/tokens internal/run/admission internal/run/admission/ask internal/proxy/gateway/dialect internal/doors/reserve github.com/envoyproxy/go-control-plane/envoy
		google.golang.org/grpc google.golang.org/protobuf`, deaf, "descriptors become reservations, which are kept elsewhere"},
	{"internal/run/explain", "governor governor/terms internal/ops/adminapi internal/run/admission internal/run/admission/ask internal/run/policy internal/lib/text tenants", deaf, "an explanation asks the governor and changes nothing"},
	{"internal/proxy/gateway/relay", "streaming", deaf, "an answer is passed on whatever it says, and whoever it is for"},
	{"internal/proxy/gateway/usage", "governor internal/run/admission tenants", silent, "a view is read from books, and whoever asks for it is elsewhere"},
	{"internal/proxy/gateway/upstream", `escrow/limits internal/proxy/answers internal/proxy/gateway/dialect internal/proxy/gateway/route internal/proxy/objects internal/proxy/upstreams tenants github.com/tidwall/gjson`, deaf, "a provider is reached without knowing for whom"},
	{"internal/proxy/gateway/stored", `governor governor/tokens internal/run/admission internal/run/admission/ask internal/lib/form internal/proxy/gateway/head internal/proxy/gateway/route internal/proxy/objects internal/lib/splice
		internal/ops/telemetry internal/lib/text streaming tenants github.com/tidwall/gjson`, deaf, "objects are recorded and charged without sending anything: the call asks the upstream"},
	{"internal/proxy/gateway/realtime", `governor governor/tokens internal/run/admission internal/run/admission/ask internal/proxy/gateway/head internal/ops/telemetry internal/lib/text streaming github.com/tidwall/gjson
		github.com/coder/websocket`, deaf, "a session sees the call by which it was opened through an interface"},
	{"internal/lib/form", "internal/lib/splice internal/lib/text", "net net/http mime/multipart os log log/slog context time", "a form is bytes, and what its fields decide is elsewhere"},
	{"internal/proxy/objects", "go.etcd.io/bbolt", "net net/http", "who made what is kept without knowing what it is for"},
	{"internal/ops/events", "governor", "net net/http os log log/slog encoding/json", "whoever listens, and however it is told: nobody slows admission down"},
	{"internal/ops/decisions", "governor governor/record escrow", "net net/http", "what was decided is written down as the governor tells it"},
	{"internal/lab/plan", "governor tenants internal/ops/decisions internal/lib/muldiv internal/run/policy", "net net/http os math/rand math/rand/v2", "a replay depends on the record and the policy, and on nothing else"},
	{"internal/run/policy", "tenants governor governor/terms internal/run/admission/ask escrow", "net net/http os log log/slog sync context time", "rules are made of a policy, and of nothing else"},
	{"internal/ops/history", "", "net net/http os log log/slog encoding/json", "a history keeps what it is given, and does not know who shows it"},
	{"internal/lib/atomicfile", "", "net net/http log log/slog sync context time", "a file is replaced without knowing what it says"},
	{"internal/lib/text", "", "net net/http os log log/slog sync context time", "a text is cut without knowing what it says"},
	{"internal/ops/adminapi", "internal/lib/text tenants", "net net/http os log log/slog context sync", "types of answers do nothing"},
	{"internal/lib/certs", "", "net/http log log/slog", "certificates are read without knowing what is sent under them"},
	{"internal/lib/connections", "", "net/http os log log/slog", "connections are counted without knowing what is sent on them"},
	{"internal/ops/logging", "", "net net/http os", "lines are gathered without knowing what they say, or where they go"},
	{"internal/lab/mock/batch", "", silent, "a batch is simulated without knowing how calls come"},
	{"internal/run/identity", "tenants internal/lib/text github.com/coreos/go-oidc/v3 github.com/go-jose/go-jose/v4", "", "a token is checked without knowing what its call is"},
	{"internal/run/engine", "internal/lib/rounds internal/lib/text github.com/prometheus/client_model github.com/prometheus/common golang.org/x/sync", "", "servers are read without knowing which limits go by what they say"},
	{"internal/lib/inflight", "", "net net/http os log log/slog time", "calls are counted without knowing by which door they came"},
	{"internal/lib/sampled", "", silent, "what may be logged is decided without logging it"},
	{"internal/lib/rounds", "", silent, "what is done in rounds knows nothing of the others"},
	{"internal/lib/recent", "", "net net/http os log log/slog time", "a memory does not know what it remembers"},
	{"internal/run/rateheaders", "governor", deaf, "headers show what the governor says, by whichever door it was asked"},
	{"internal/doors/inprocess", "escrow governor governor/client governor/client/doors internal/run/admission internal/run/admission/ask internal/run/rateheaders internal/ops/telemetry streaming", deaf, "a call of a program is the same call as one over HTTP: it only comes by another door"},
	{"governor/remote/admissionv1", "google.golang.org/grpc google.golang.org/protobuf", "", "a protocol is generated from its description"},
	{"governor/remote", "governor/client governor/client/doors governor/remote/admissionv1 governor/tokens internal/lib/inflight google.golang.org/grpc google.golang.org/protobuf", "os log", "a program that asks another one has no governor of its own"},
	{"internal/doors/reserve", "governor/client governor/client/doors internal/run/admission internal/run/admission/ask internal/lib/inflight internal/run/rateheaders", "net os log log/slog encoding/json", "reservations are kept without knowing by which protocol they are made"},
	{"internal/doors/reserveserver", `governor/client governor/remote/admissionv1 governor/tokens internal/run/admission internal/run/admission/ask internal/doors/admissionserver internal/proxy/gateway/dialect
		internal/lib/jsonscan internal/run/rateheaders internal/doors/reserve google.golang.org/grpc google.golang.org/protobuf`, deaf, "a protocol says what is asked, and the book decides"},
	{"internal/run/adminview", "governor internal/ops/adminapi internal/run/admission internal/run/explain tenants tenants/keyfile", deaf, "the admin side sees what admits calls, whichever door the calls come by"},
	{"internal/run/instance", `internal/lib/atomicfile internal/lib/rounds internal/ops/admin internal/ops/adminapi internal/run/admission internal/ops/decisions internal/run/durable internal/run/engine internal/ops/events internal/run/policy internal/lib/sampled
		internal/ops/telemetry federation federation/spend federation/store federation/runner governor governor/record governor/sharing tenants golang.org/x/sync`, "net net/http", "an instance has no listener and no gateway: whoever opens it has doors of its own"},
	{"internal/lib/encoded", "github.com/klauspost/compress", "net net/http os log log/slog context time", "a body is decoded without knowing what it says"},
	{"internal/proxy/intake", "", silent, "memory is handed out without knowing what arrives in it, or from where"},
	{"internal/lib/bearer", "", "os log log/slog sync context time", "a credential is read without knowing what it opens"},
	{"internal/ops/crash", "", deaf, "a panic is judged by its stack alone"},
	{"internal/doors/admissionserver", `internal/lib/bearer internal/lib/connections internal/ops/crash internal/run/rateheaders internal/lib/sampled internal/lib/text golang.org/x/sync google.golang.org/grpc
		google.golang.org/protobuf`, "os", "a listener knows who calls, and not what is asked of its services"},
	{"internal/ops/notify", "", "os", "what is told is facts, and whoever finds them is elsewhere"},
	{"internal/ops/readiness", "internal/lib/rounds", "os log log/slog", "whether to leave the balancer depends on what other gateways say, and on nothing else of this one"},
	{"internal/ops/admin", `internal/lib/bearer internal/ops/crash internal/ops/adminapi internal/lib/text internal/lib/connections internal/lib/jsonscan internal/ops/readiness internal/lib/sampled internal/ops/events
		internal/ops/history internal/ops/notify federation/spend governor escrow escrow/adaptive tenants tenants/keyfile`, "", "the admin side sees the gateway through an interface of its own"},
	{"internal/run/admission/ask", "escrow governor/tokens", pure, "words: an ask and a refusal do nothing, and link nothing"},
	{"internal/run/admission", `internal/run/identity internal/run/admission/ask governor governor/tokens escrow escrow/lengths tenants tenants/keyfile streaming internal/run/policy internal/ops/telemetry internal/ops/tracing
		internal/ops/history internal/lib/recent internal/lib/text`, "net net/http os log log/slog encoding/json", "the life of a call does not know by which protocol its caller speaks"},
	{"internal/proxy/gateway", `internal/lib/rounds internal/lib/text internal/lib/bearer internal/lib/cancel internal/ops/crash internal/lib/connections internal/lib/http1 internal/lib/http1/plain internal/proxy/intake internal/ops/logging
		internal/run/rateheaders internal/lib/recent internal/lib/sampled internal/run/admission internal/run/admission/ask internal/run/policy governor governor/terms governor/tokens escrow escrow/lengths escrow/limits
		tenants tenants/keyfile streaming internal/ops/telemetry internal/ops/tracing internal/lib/form internal/lib/splice internal/proxy/gateway/head
		internal/proxy/gateway/describe internal/proxy/gateway/dialect internal/proxy/gateway/grants internal/proxy/gateway/realtime internal/proxy/gateway/relay internal/proxy/gateway/route
		internal/proxy/gateway/stored internal/proxy/gateway/upstream internal/proxy/gateway/usage internal/run/adminview internal/proxy/objects internal/proxy/answers
		internal/lib/affinity internal/proxy/upstreams internal/lib/encoded internal/ops/events internal/ops/history internal/ops/adminapi github.com/tidwall/gjson github.com/coder/websocket`, "", "the request path calls no network store"},
}

// wings are the parts of the house, from the foundation up: each may import what stands before it. The rooms are the packages outside
// internal/ that a program may import, and embedding has those that open a whole instance in such a program.
var wings = []string{"lib", "rooms", "ops", "run", "proxy", "doors", "embedding", "lab", "cmd", "test"}

// wingOf is the wing of a package by its path in the module; "" if it has none.
func wingOf(room string) string {
	first, rest, _ := strings.Cut(room, "/")
	switch {
	case first == "internal":
		wing, _, _ := strings.Cut(rest, "/")
		if slices.Contains(wings, wing) && wing != "rooms" && wing != "embedding" {
			return wing
		}
		return ""
	case first == "cmd":
		return first
	case room == "governor/embedded" || room == "governor/govhttp":
		return "embedding"
	}
	return "rooms"
}

// mustNot says why a package of one wing must not import one of another; "" if it may.
func mustNot(from, to string) string {
	switch {
	case from == "" || to == "":
		return "one of them is in no wing: packages of internal/ stand in " + strings.Join(wings, ", ")
	case slices.Index(wings, to) > slices.Index(wings, from):
		return "nothing imports upward: " + to + " stands above " + from
	case (to == "cmd" || to == "test") && from != to:
		return "nobody but " + to + " imports " + to
	case to == "embedding" && from != to:
		return "only programs of others are to use it"
	}
	return ""
}

func TestWings(t *testing.T) {
	readme := string(testkit.Must(os.ReadFile("../../README.md"))(t))
	for _, p := range list(t) {
		room := strings.TrimPrefix(p.ImportPath, module+"/")
		from := wingOf(room)
		if strings.HasPrefix(room, "internal/") && !strings.Contains(readme, "| `"+from+"` |") {
			t.Errorf("internal/README.md has no line for %q, the wing of %s", from, room)
		}
		for _, path := range p.Imports {
			to, own := strings.CutPrefix(path, module+"/")
			if why := mustNot(from, wingOf(to)); own && why != "" {
				t.Errorf("%s imports %s, but %s", room, to, why)
			}
		}
	}
	for _, c := range []struct {
		from, to string
		may      bool
	}{
		{"internal/lib/http1", "internal/lib/socket", true},
		{"internal/lib/http1", "streaming", false},
		{"streaming", "internal/lib/jsonscan", true},
		{"governor", "internal/run/admission", false},
		{"governor/govhttp", "internal/proxy/gateway/head", true},
		{"internal/ops/admin", "internal/run/admission", false},
		{"internal/proxy/gateway", "internal/doors/reserve", false},
		{"internal/doors/envoy/extproc", "internal/proxy/gateway/head", true},
		{"internal/lab/bench", "internal/proxy/gateway", true},
		{"internal/proxy/gateway", "internal/lab/mock", false},
		{"cmd/llmgov", "internal/lab/mock", true},
		{"cmd/llmgov", "internal/test/testkit", false},
		{"internal/lab/versus", "cmd/llmgov/report", false},
		{"internal/test/testkit/processtest", "internal/lab/mock", true},
		{"cmd/llmgov", "internal/mock", false},
		{"internal/rooms/x", "governor", false},
	} {
		if why := mustNot(wingOf(c.from), wingOf(c.to)); (why == "") != c.may {
			t.Errorf("%s → %s: may %v, want %v (%s)", c.from, c.to, why == "", c.may, why)
		}
	}
}

// free may import everything below them: they wire, or only test.
var free = map[string]bool{"cmd/llmgov": true, "internal/test/arch": true, "internal/lab/bench": true, "internal/lab/readers": true, "internal/lab/versus": true}

// below these folders packages may import everything.
var freeFolders = []string{"internal/test/e2e"}

func TestNoForbiddenImports(t *testing.T) {
	for _, p := range list(t) {
		room := strings.TrimPrefix(p.ImportPath, module+"/")
		if free[room] || slices.ContainsFunc(freeFolders, func(f string) bool { return room == f || strings.HasPrefix(room, f+"/") }) {
			continue
		}
		i := slices.IndexFunc(rules, func(r rule) bool { return r.room == room })
		if i < 0 {
			t.Errorf("%s has no rule: add it to this test, with what it may import and why", room)
			continue
		}
		for _, path := range p.Imports {
			if !allowed(rules[i], path) {
				t.Errorf("%s imports %s, but %s", room, path, rules[i].reason)
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

// Every package that programs can import says whether they may rely on it.
func TestEveryDoorSaysHowStableItIs(t *testing.T) {
	for _, p := range list(t) {
		if len(p.GoFiles) == 0 || strings.Contains(p.ImportPath+"/", "/internal/") || strings.Contains(p.ImportPath+"/", "/cmd/") {
			continue
		}
		said := 0
		for _, file := range p.GoFiles {
			text := string(testkit.Must(os.ReadFile(filepath.Join(p.Dir, file)))(t))
			said += strings.Count(text, "\n// # Stability\n")
		}
		if said != 1 {
			t.Errorf("%s has %d sections of its stability in its package comment, want one", p.ImportPath, said)
		}
	}
}

func allowed(r rule, path string) bool {
	inModule, own := strings.CutPrefix(path, module+"/")
	if own {
		return slices.Contains(strings.Fields(r.may), inModule)
	}
	first, _, _ := strings.Cut(path, "/")
	if !strings.Contains(first, ".") { // standard library
		return !slices.Contains(strings.Fields(r.not), path)
	}
	for _, prefix := range strings.Fields(r.may) {
		if path == prefix || strings.HasPrefix(path, prefix+"/") {
			return true
		}
	}
	return false
}

type pkg struct {
	ImportPath string
	Dir        string
	Doc        string
	GoFiles    []string
	Imports    []string
	Standard   bool
}

// list has the packages of the module.
func list(t *testing.T) (own []pkg) {
	t.Helper()
	for _, p := range linkable(t) {
		if strings.HasPrefix(p.ImportPath, module) && !strings.Contains(p.ImportPath, "/testdata/") {
			own = append(own, p)
		}
	}
	return own
}

// linkable has the packages of the module, and all that they and the programs of linked import.
func linkable(t *testing.T) []pkg {
	t.Helper()
	all, err := goList()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	return all
}

var goList = sync.OnceValues(func() (all []pkg, err error) {
	args := []string{"list", "-deps", "-json=ImportPath,Dir,Doc,GoFiles,Imports,Standard", module + "/..."}
	for _, l := range linked {
		args = append(args, module+"/"+l.program)
	}
	cmd := exec.Command("go", args...)
	cmd.Dir = "../../.."
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, err
	}
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
})

// A refusal is made, and its fields are set, in governor/refusal*.go alone, so that a new datum of
// refusals is filled in there and nowhere is forgotten.
func TestRefusals_AreMadeByConstructors(t *testing.T) {
	c := governorCode(t)
	made := 0
	report := func(at token.Pos, what string) {
		where := c.fset.Position(at)
		if strings.HasPrefix(filepath.Base(where.Filename), "refusal") {
			made++
			return
		}
		t.Errorf("%s: %s: let a constructor or method in governor/refusal*.go do that", where, what)
	}
	for _, f := range c.funcs {
		ast.Inspect(f, func(n ast.Node) bool {
			switch x := n.(type) {
			case *ast.CompositeLit:
				if tv := c.info.Types[x]; strings.HasSuffix(types.TypeString(tv.Type, nil), ".Refusal") {
					report(x.Pos(), "a Refusal is made")
				}
			case *ast.AssignStmt:
				for _, left := range x.Lhs {
					if sel, ok := left.(*ast.SelectorExpr); ok {
						v, _ := c.info.Uses[sel.Sel].(*types.Var)
						if field := c.fields[v]; strings.HasPrefix(field, "Refusal.") {
							report(x.Pos(), field+" is set")
						}
					}
				}
			}
			return true
		})
	}
	if made < 20 {
		t.Errorf("only %d places are found that make a Refusal or set its fields", made)
	}
}
