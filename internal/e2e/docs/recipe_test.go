package docs

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/llmgov/llmgov/internal/testkit"
	"github.com/llmgov/llmgov/internal/testkit/processtest"
	"github.com/llmgov/llmgov/internal/testkit/redistest"
)

// Whoever follows docs/twelve-teams.md from its first line to its last gets what it shows: two gateways that
// answer, with a key and a share for each team.
func TestRecipe_TwelveTeams(t *testing.T) {
	redistest.New(t) // or the test is skipped
	doc := read(t, "../../../docs/twelve-teams.md")
	ports := map[string]string{}
	for _, port := range []string{"6379", "8080", "8081", "8090", "9090", "9091"} {
		ports[port] = strconv.Itoa(testkit.Port(t))
	}
	// The gateway may have seen the file change before it is told to reload, and says then that nothing has changed since.
	const inForce = "\n```sh\nuntil grep -q 'policy in force' one.log; do sleep 0.1; done\n```\n"
	dir, out := follow(t, doc+inForce, ports)
	for _, want := range []string{`"object":"chat.completion"`, "Tenant shop/catalog (tier product)", "Nodes 2", "  office/hr  ", ": policy "} {
		if !strings.Contains(out, want) {
			t.Errorf("%s was not printed:\n%s", want, out)
		}
	}
	if keys := strings.Count(read(t, filepath.Join(dir, "keys.txt")), "llmg_"); keys != 12 {
		t.Errorf("%d keys were made, not 12", keys)
	}
}

// TestRecipe_CostReports: the commands of docs/cost-reports.md tell of each team what it used and what it cost.
func TestRecipe_CostReports(t *testing.T) {
	if _, err := exec.LookPath("jq"); err != nil {
		testkit.Missing(t, "jq", err)
	}
	ports := map[string]string{}
	for _, port := range []string{"8080", "8090", "9090"} {
		ports[port] = strconv.Itoa(testkit.Port(t))
	}
	_, out := follow(t, read(t, "../../../docs/cost-reports.md"), ports)
	if want := `"used":0.1`; !strings.Contains(out, want) {
		t.Errorf("%s of the department's budget is not in what was printed:\n%s", want, out)
	}
}

// follow does all that a page says, and returns the folder and what was printed. What the page shows as text has to be in it.
func follow(t *testing.T, doc string, ports map[string]string) (dir, out string) {
	t.Helper()
	dir = t.TempDir()
	script, shown := recipe(t, doc, dir, ports)

	printed, err := os.Create(filepath.Join(dir, "printed"))
	if err != nil {
		t.Fatal(err)
	}
	defer printed.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	bash := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", script)
	bash.Env = append(os.Environ(), "PATH="+folderOfLlmgov(t)+":"+os.Getenv("PATH"))
	bash.Dir = dir
	bash.Stdout = printed
	bash.Stderr = printed
	bash.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // with all that it leaves in the background
	testkit.OK(t, bash.Start())
	err = bash.Wait()
	_ = syscall.Kill(-bash.Process.Pid, syscall.SIGKILL)
	out = read(t, printed.Name())
	if err != nil {
		log, _ := os.ReadFile(filepath.Join(dir, "one.log")) // not each page has it
		t.Fatalf("%v\n%s\n%s", err, out, log)
	}
	if !strings.Contains(out, shown) {
		t.Errorf("the page shows\n%s\nwhich is not in what was printed:\n%s", shown, out)
	}
	return dir, out
}

// folderOfLlmgov has the program by its name.
func folderOfLlmgov(t *testing.T) string {
	t.Helper()
	path := testkit.Must(processtest.Binary())(t)
	return filepath.Dir(path)
}

// recipe writes a page's files into dir. It returns the commands, with ports of this test and shorter waits, and the
// output that the page shows as text.
func recipe(t *testing.T, doc, dir string, ports map[string]string) (script, shown string) {
	t.Helper()
	parts := strings.Split(doc, "```")
	var commands strings.Builder
	for i := 1; i < len(parts); i += 2 {
		kind, text, _ := strings.Cut(parts[i], "\n")
		switch kind {
		case "yaml":
			name, _, _ := strings.Cut(strings.TrimPrefix(text, "# "), "\n")
			file := filepath.Join(dir, name)
			testkit.OK(t, os.MkdirAll(filepath.Dir(file), 0o700))
			testkit.OK(t, os.WriteFile(file, []byte(text), 0o600))
		case "sh":
			commands.WriteString(text)
			if strings.Contains(text, "llmgov serve") {
				commands.WriteString(waitUntilReady(ports))
			}
		case "text":
			shown = text
		}
	}
	config := filepath.Join(dir, "llmgov.yaml")
	settings := strings.Replace(read(t, config), "admin: {", `admin: {listen: "127.0.0.1:9090", `, 1) + "listen: 127.0.0.1:8080\n"
	var pairs []string
	for port, free := range ports {
		pairs = append(pairs, port, free)
	}
	free := strings.NewReplacer(pairs...) // at once, because a free port may equal another one of the page
	script = free.Replace(commands.String())
	testkit.OK(t, os.WriteFile(config, []byte(free.Replace(settings)), 0o600))
	script = strings.NewReplacer(
		"llmgov mock ", "llmgov mock --listen 127.0.0.1:"+ports["8090"]+" ",
		"llmgov load ", "llmgov load --url http://127.0.0.1:"+ports["8080"]+" ",
		"--daemonize yes", "--daemonize no >/dev/null &",
		"--for 25s", "--for 3s", "sleep 15", `until curl -sf -o /dev/null localhost:`+ports["8081"]+`/v1/models -H "Authorization: Bearer $(key shop/search)"; do sleep 0.1; done`,
	).Replace(script)
	return script, shown
}

// waitUntilReady is what a reader does between starting gateways and using them. Of gateways that share a limit the page says that
// their logs tell when they have a part of it.
func waitUntilReady(ports map[string]string) string {
	const one = `until curl -sf -o /dev/null -H "Authorization: Bearer $ADMIN_TOKEN" localhost:9090/api/v1/snapshot; do sleep 0.1; done
`
	if ports["9091"] == "" {
		return one
	}
	return one + strings.Replace(one, "9090", "9091", 1) + `for log in one.log two.log; do until grep -q 'limits are shared out by the store' $log; do sleep 0.1; done; done
`
}
