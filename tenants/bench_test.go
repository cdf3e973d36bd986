package tenants

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/llmgov/llmgov/internal/test/testkit"
)

// crowd writes 10,000 tenants into 1,000 files, a tenth of them with teams, and answers the config's name.
func crowd(b *testing.B) (config string) {
	b.Helper()
	dir := b.TempDir()
	write := func(name, text string) {
		b.Helper()
		testkit.OK(b, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	testkit.OK(b, os.Mkdir(filepath.Join(dir, "tenants"), 0o755))
	write("llmgov.yaml", "upstreams: {o: {base_url: http://o}}\npools:\n  a: {models: [gpt-4o, \"gpt-*\"], tpm: 1000000}\n  b: {models: [\"claude-*\"], rpm: 1000}\ndefault_pool: a\n")
	write("tenants/tiers.yaml", "tiers: {pro: {weight: 2, rpm: 60, tpm: 10000, max_wait: 2s, pools: {a: {tpm: 500}}}, free: {group: true, rpm: 5}}\n")
	for i := range 1000 {
		write(fmt.Sprintf("tenants/f%04d.yaml", i), crowdFile(i, 1))
	}
	return filepath.Join(dir, "llmgov.yaml")
}

func crowdKey(n int) string { return fmt.Sprintf("sk-llmgov-%032d", n) }

// crowdFile is ten tenants.
func crowdFile(i, rpm int) string {
	var text strings.Builder
	text.WriteString("# people of one customer\ntenants:\n")
	for j := range 10 {
		n := i*10 + j
		fmt.Fprintf(&text, "  t%05d:\n    tier: %s\n    keys: [%s, {hash: %s, name: ci, expires: 2030-01-31}]\n    models: [\"gpt-*\"]\n    rpm: %d\n",
			n, []string{"pro", "free"}[j%2], HashKey(crowdKey(n)), HashKey(fmt.Sprint("ci", n)), rpm)
		if j == 0 {
			fmt.Fprintf(&text, "    teams: {a: {keys: [%s]}, b: {weight: 2, models: [gpt-4o], keys: [%s]}}\n", HashKey(fmt.Sprint("a", n)), HashKey(fmt.Sprint("b", n)))
		}
	}
	return text.String()
}

func BenchmarkCrowd_Load(b *testing.B) {
	config := crowd(b)
	b.ReportAllocs()
	for b.Loop() {
		testkit.Must(Load(config, Options{}))(b)
	}
}

// BenchmarkCrowd_Reload changes one of the files, as the Watcher sees it.
func BenchmarkCrowd_Reload(b *testing.B) {
	config := crowd(b)
	l := testkit.Must(newLoader(config, Options{}))(b)
	testkit.Must(load(l))(b)
	b.ReportAllocs()
	for n := 2; b.Loop(); n++ {
		testkit.OK(b, os.WriteFile(filepath.Join(filepath.Dir(config), "tenants/f0500.yaml"), []byte(crowdFile(500, n)), 0o644))
		s := testkit.Must(load(l))(b)
		if t, ok := s.TenantByName("t05001"); !ok || t.RPM != int64(n) {
			b.Fatalf("after the change: %+v", t)
		}
	}
}
