package tenants

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/llmgov/llmgov/internal/test/testkit"
)

// changing is a file system in which something happens when a file is opened.
type changing struct {
	fs.FS
	on     string
	happen func()
}

func (c *changing) Open(name string) (fs.File, error) {
	if happen := c.happen; name == c.on && happen != nil {
		c.happen = nil
		happen()
	}
	return c.FS.Open(name)
}

// Stat implements fs.StatFS.
func (c *changing) Stat(name string) (fs.FileInfo, error) { return fs.Stat(c.FS, name) }

// TestLoad_TiersMeanwhile: a file that has got tiers between the look at it and its reading is none of those that are read side by side.
func TestLoad_TiersMeanwhile(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) { testkit.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600)) }
	testkit.OK(t, os.Mkdir(filepath.Join(dir, "tenants"), 0o700))
	write("llmgov.yaml", goodConfig)
	write("tenants/a.yaml", "tenants: {acme: {keys: [], tier: gold}}")
	write("tenants/z.yaml", "tiers: {gold: {rpm: 1}}")
	files := &changing{FS: os.DirFS(dir)}
	later := func() time.Time { return time.Now().Add(2 * restless) }
	l := &loader{fsys: files, config: "llmgov.yaml", shown: "llmgov.yaml", more: map[string]string{}, clock: later}
	testkit.Must(load(l))(t)

	files.on = "tenants/z.yaml"
	files.happen = func() {
		write("tenants/a.yaml", "tiers: {silver: {rpm: 30}}\ntenants: {acme: {keys: [], tier: silver}}")
	}
	write("tenants/z.yaml", "tiers: {gold: {rpm: 20}}")
	for range 2 {
		if got := testkit.Must(load(l))(t).Tenants()[0].RPM; got != 30 {
			t.Errorf("rpm %d, want 30", got)
		}
		write("tenants/b.yaml", "tenants: {beta: {keys: [], tier: silver}}")
	}
}
