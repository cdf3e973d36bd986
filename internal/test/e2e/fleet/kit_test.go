package fleet

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/llmgov/llmgov/internal/ops/adminapi"
	"github.com/llmgov/llmgov/internal/test/testkit/pgtest"
	"github.com/llmgov/llmgov/internal/test/testkit/processtest"
	"github.com/llmgov/llmgov/internal/test/testkit/redistest"
	"github.com/llmgov/llmgov/tenants"
)

// In a quick run fleets spend most of their time waiting for one another, so that more of them fit at once than there are processors.
func TestMain(m *testing.M) {
	flag.Parse()
	if testing.Short() {
		if err := flag.Set("test.parallel", "8"); err != nil {
			panic(err)
		}
	}
	processtest.Main(m)
}

// stores start a store of each kind, and answer its URL.
var stores = map[string]func(testing.TB) string{
	"redis":    func(t testing.TB) string { return redistest.New(t).URL() },
	"postgres": func(t testing.TB) string { return pgtest.New(t).URL() },
}

// fleet is gateways that read the same files.
type fleet struct {
	t        *testing.T
	dir      string // of the files
	gateways []*gateway
}

// gateway is a place in a fleet, whose process may be another one after a while.
type gateway struct {
	f    *fleet
	i    int
	args []string // that others do not have
	proc atomic.Pointer[processtest.Process]
}

// newFleet starts n gateways with a config and tenants, given by their settings. Of further arguments each has its own.
func newFleet(t *testing.T, n int, config string, settings map[string]string, args ...[]string) *fleet {
	t.Helper()
	f := &fleet{t: t, dir: t.TempDir()}
	processtest.Write(t, f.dir, map[string]string{"llmgov.yaml": config, "tenants/all.yaml": policy(settings)})
	for i := range n {
		g := &gateway{f: f, i: i}
		if i < len(args) {
			g.args = args[i]
		}
		f.gateways = append(f.gateways, g)
	}
	f.start(f.gateways...)
	return f
}

// policy is tenants whose keys are key-of-NAME.
func policy(settings map[string]string) string {
	text := "tenants:\n"
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		text += fmt.Sprintf("  %s: {keys: [%q], %s}\n", name, tenants.HashKey("key-of-"+name).String(), settings[name])
	}
	return text
}

// start starts gateways, each in a new folder.
func (f *fleet) start(those ...*gateway) {
	f.t.Helper()
	var commands []processtest.Command
	for _, g := range those {
		commands = append(commands, g.command())
	}
	for i, p := range processtest.ServeAll(f.t, commands...) {
		those[i].proc.Store(p)
	}
}

func (g *gateway) command() processtest.Command {
	return processtest.Command{Args: append([]string{
		"serve", "-c", g.f.dir + "/llmgov.yaml", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0",
		"--node", fmt.Sprint("n", g.i), "--region", fmt.Sprint("r", g.i),
	}, g.args...)}
}

func (g *gateway) kill()    { g.proc.Load().Kill() }
func (g *gateway) restart() { g.f.start(g) }

func (g *gateway) signal(s syscall.Signal) { _ = syscall.Kill(g.proc.Load().Pid(), s) }

// sum adds up the series of one of its metrics that have these labels.
func (g *gateway) sum(name string, labels ...string) float64 {
	g.f.t.Helper()
	return processtest.Sum(g.proc.Load().Scrape(g.f.t), name, labels...)
}

// snapshot is what it says of its pools.
func (g *gateway) snapshot() (pools []snapshot) {
	g.f.t.Helper()
	var v struct{ Pools []snapshot }
	processtest.Ask(g.f.t, http.MethodGet, g.proc.Load().Admin+"/api/v1/snapshot", "", "").Into(g.f.t, &v)
	return v.Pools
}

type snapshot struct {
	Sharing *adminapi.Sharing
	Limits  []struct {
		Axis        string
		Limit, Used int64
	}
}

// longCall is a call of 490 tokens.
const longCall = `{"model":"m","messages":[{"role":"user","content":"How long is a piece of string?"}],"max_tokens":480}`

// call sends a call, and reads its answer.
func (g *gateway) call(ctx context.Context, tenant, body string) (processtest.Answer, error) {
	return processtest.Try(ctx, http.MethodPost, g.proc.Load().Data+"/v1/chat/completions", "key-of-"+tenant, body)
}

// lasting is a call whose answer takes so many tenths of a second.
func lasting(tenths int) string {
	return processtest.Chat(fmt.Sprintf(`"max_tokens":%d,"mock":{"output_tokens":%d,"token_ms":100}`, max(99, tenths), max(1, tenths)))
}

// ask wants an answer, which takes so many tenths of a second. Any goroutine may ask.
func (g *gateway) ask(tenant string, tenths int) processtest.Answer {
	answer, err := g.call(g.f.t.Context(), tenant, lasting(tenths))
	if err != nil {
		g.f.t.Error(err)
	}
	return answer
}

// await waits until gateways serve a tenant: until the store has granted them something.
func (f *fleet) await(tenant string, gateways ...*gateway) {
	f.t.Helper()
	for _, g := range gateways {
		redistest.Eventually(f.t, "the store grants", func() bool { return g.ask(tenant, 0).Status == http.StatusOK })
	}
}

// served asks at gateways in turn until so many calls are served, and then until so many in a row are refused. It returns how many
// were served, and the last refusal.
func (f *fleet) served(tenant string, want, refusals int, gateways ...*gateway) (served int, last string) {
	refused := 0
	end := time.Now().Add(processtest.Patience)
	for i := 0; (served < want || refused < refusals) && time.Now().Before(end); i++ {
		switch answer := gateways[i%len(gateways)].ask(tenant, 0); {
		case answer.Status == http.StatusOK:
			served++
			refused = 0
		case answer.Status == http.StatusTooManyRequests:
			last = answer.Body
			refused++
			time.Sleep(50 * time.Millisecond) // parts move from gateway to gateway meanwhile
		case !storeIsLate(answer):
			f.t.Errorf("%s: %d %s", tenant, answer.Status, answer.Body)
			return served, last
		}
	}
	return served, last
}

// storeIsLate is the answer of a busy machine, on which the store takes more than a moment.
func storeIsLate(answer processtest.Answer) bool {
	return answer.Status == http.StatusServiceUnavailable && strings.Contains(answer.Body, "store_unavailable")
}

// end asks a gateway to stop in order, by a signal, and waits for it.
func (g *gateway) end(s os.Signal) {
	g.f.t.Helper()
	g.proc.Load().End(g.f.t, s, 0)
}
