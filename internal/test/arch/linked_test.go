package arch

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/llmgov/llmgov/internal/test/testkit"
)

// linked are programs, with the most that they may link. docs/dependencies.md shows it in the rows of those that have a name there.
var linked = []struct {
	program string
	row     string
	most    int // packages of other modules
	bytes   int64
	not     string // prefixes of packages, without that of this module
}{
	{"internal/test/arch/testdata/doors/govhttp", "`govhttp` with `client`", 13, 7.5e6, nowhere + " tenants internal/ops/telemetry github.com/prometheus google.golang.org go.opentelemetry.io go.etcd.io"},
	{"internal/test/arch/testdata/doors/embedded", "`embedded`, store: memory", 82, 15.2e6, nowhere + " federation/redis federation/postgres google.golang.org/grpc go.opentelemetry.io/otel/sdk internal/ops/tracing/otlp"},
	{"internal/test/arch/testdata/doors/remote", "`remote`", 112, 12e6, nowhere + " tenants internal/ops/telemetry github.com/prometheus go.opentelemetry.io/otel/sdk go.etcd.io"},
	{"cmd/llmgov", "", 355, 52.6e6, "internal/lab/bench internal/lab/versus internal/lab/readers internal/test/testkit internal/test/e2e"},
}

// nowhere is linked by the binary alone.
const nowhere = "governor/tokens/bpe internal/doors/envoy github.com/envoyproxy github.com/jackc github.com/redis internal/proxy/gateway/upstream internal/lab/mock internal/lab/simulate internal/lab/load internal/test/testkit"

// A program links what the door needs that it names, and neither stores, exporters nor vocabularies beside.
func TestLinked_IsWhatADoorNeeds(t *testing.T) {
	doc := string(testkit.Must(os.ReadFile("../../../docs/dependencies.md"))(t))
	imports := map[string][]string{} // of what is not the standard library's
	for _, p := range linkable(t) {
		if !p.Standard {
			imports[p.ImportPath] = p.Imports
		}
	}
	for _, l := range linked {
		if row := fmt.Sprintf("| %s | %d | %.1f MB |", l.row, l.most, float64(l.bytes)/1e6); l.row != "" && !strings.Contains(doc, row) {
			t.Errorf("docs/dependencies.md has no row %s", row)
		}
		reached := map[string]bool{}
		var reach func(path string)
		reach = func(path string) {
			if next, known := imports[path]; known && !reached[path] {
				reached[path] = true
				for _, p := range next {
					reach(p)
				}
			}
		}
		reach(module + "/" + l.program)
		others := 0
		for path := range reached {
			own, isOwn := strings.CutPrefix(path, module+"/")
			if !isOwn {
				others++
			}
			for _, prefix := range strings.Fields(l.not) {
				if own == prefix || strings.HasPrefix(own, prefix+"/") {
					t.Errorf("%s links %s: cut what leads there, see go list -deps", l.program, path)
				}
			}
		}
		if others > l.most || others == 0 {
			t.Errorf("%s links %d packages of other modules, more than %d: see go list -deps", l.program, others, l.most)
		}
	}
}

// The programs are as small as is promised.
func TestLinked_IsSmall(t *testing.T) {
	if testing.Short() {
		t.Skip("links four programs")
	}
	for _, l := range linked {
		file := filepath.Join(t.TempDir(), "program")
		cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", file, module+"/"+l.program)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", l.program, err, out)
		}
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %.1f MB", l.program, float64(info.Size())/1e6)
		if info.Size() > l.bytes {
			t.Errorf("%s has %.1f MB, more than %.1f: see go tool nm -size -sort size", l.program, float64(info.Size())/1e6, float64(l.bytes)/1e6)
		}
	}
}
