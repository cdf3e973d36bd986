package docs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/internal/test/testkit/processtest"
	"github.com/llmgov/llmgov/internal/test/testkit/redistest"
	"go.yaml.in/yaml/v3"
)

// What docs/policies.md shows is what the commands print: each block of it is in a script, which is run, and each
// command is one that a script runs.
func TestPoliciesDoc(t *testing.T) {
	doc := read(t, "../../../../docs/policies.md")
	var scripts strings.Builder
	files, _ := filepath.Glob("../../../../cmd/llmgov/testdata/script/*.txtar")
	for _, file := range files {
		scripts.WriteString(read(t, file))
	}
	blocks := 0
	for i, part := range strings.Split(doc, "```") {
		if i%2 == 0 {
			continue // between the blocks
		}
		lang, text, _ := strings.Cut(part, "\n")
		blocks++
		if lang != "sh" {
			if !strings.Contains(scripts.String(), "--\n"+text+"-- ") && !strings.HasSuffix(scripts.String(), "--\n"+text) {
				t.Errorf("no script holds this block:\n%s", text)
			}
			continue
		}
		for line := range strings.Lines(text) {
			command, _, _ := strings.Cut(strings.TrimSpace(line), " >")
			if !strings.Contains(scripts.String(), "exec "+command+"\n") {
				t.Errorf("no script runs %s", command)
			}
		}
	}
	if blocks < 12 {
		t.Errorf("%d blocks in the document", blocks)
	}
}

// TestDocs_IndexListsEveryPage: each folder's README.md has each of its pages. Where its links lead is seen below.
func TestDocs_IndexListsEveryPage(t *testing.T) {
	for folder, entry := range map[string]string{"docs": "| [%[1]s](%[1]s) |", "docs/decisions": "](%s)"} {
		index := read(t, "../../../../"+folder+"/README.md")
		pages := testkit.Must(filepath.Glob("../../../../" + folder + "/*.md"))(t)
		for _, page := range pages {
			name := filepath.Base(page)
			if name != "README.md" && !strings.Contains(index, fmt.Sprintf(entry, name)) {
				t.Errorf("%s/README.md does not list %s", folder, name)
			}
		}
	}
}

// TestDocs_LinksLead: each link of a page to a file or a heading of this repository leads there.
func TestDocs_LinksLead(t *testing.T) {
	var pages []string
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md", "docs/*/*/*.md", "internal/*.md", "internal/*/*/*.md"} {
		found := testkit.Must(filepath.Glob("../../../../" + pattern))(t)
		pages = append(pages, found...)
	}
	links := 0
	for _, page := range pages {
		for _, link := range linkTarget.FindAllStringSubmatch(codeBlock.ReplaceAllString(read(t, page), ""), -1) {
			if strings.Contains(link[1], ":") { // of another site
				continue
			}
			links++
			file, heading, _ := strings.Cut(link[1], "#")
			target := page
			if file != "" {
				target = filepath.Join(filepath.Dir(page), file)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: %v", page, err)
			} else if heading != "" && strings.HasSuffix(target, ".md") && !headings(t, target)[heading] {
				t.Errorf("%s: %s has no heading %s", page, target, heading)
			}
		}
	}
	if links < 300 {
		t.Errorf("found %d links", links)
	}
}

// TestDocs_NamedFilesExist: the files and folders that pages about the code name are there.
func TestDocs_NamedFilesExist(t *testing.T) {
	named := 0
	for _, pattern := range []string{"docs/architecture.md", "docs/decisions/*.md", "internal/*.md", "CONTRIBUTING.md"} {
		for _, page := range testkit.Must(filepath.Glob("../../../../" + pattern))(t) {
			for _, path := range ofTheCode.FindAllStringSubmatch(read(t, page), -1) {
				named++
				if _, err := os.Stat("../../../../" + strings.TrimSuffix(path[1], "/...")); err != nil {
					t.Errorf("%s: %v", page, err)
				}
			}
		}
	}
	if named < 150 {
		t.Errorf("found %d files and folders", named)
	}
}

func TestMain(m *testing.M) { processtest.Main(m) }

// read is the text of a file.
func read(t *testing.T, file string) string {
	t.Helper()
	return string(testkit.Must(os.ReadFile(file))(t))
}

var (
	ofTheCode   = regexp.MustCompile("`((?:cmd|dashboards|escrow|federation|governor|internal|streaming|tenants)/[^`\\s{(A-Z]*)`")
	linkTarget  = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	codeBlock   = regexp.MustCompile("(?s)```.*?```")
	headingLine = regexp.MustCompile(`(?m)^#+ (.*)$`)
	linkText    = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	unlinkable  = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
)

// headings are the anchors of a page.
func headings(t *testing.T, page string) map[string]bool {
	anchors := map[string]bool{}
	for _, line := range headingLine.FindAllStringSubmatch(codeBlock.ReplaceAllString(read(t, page), ""), -1) {
		text := unlinkable.ReplaceAllString(strings.ToLower(linkText.ReplaceAllString(line[1], "$1")), "")
		anchors[strings.ReplaceAll(text, " ", "-")] = true
	}
	return anchors
}

// node is a place in a YAML document.
type node struct {
	*testing.T
	value any
}

// yamlDocs are the documents of a file, by kind and name.
func yamlDocs(t *testing.T, file string) map[string]node {
	t.Helper()
	in := yaml.NewDecoder(bytes.NewReader([]byte(read(t, file))))
	docs := map[string]node{}
	for {
		var head struct {
			Kind     string
			Metadata struct{ Name string }
		}
		var all yaml.Node
		if err := in.Decode(&all); errors.Is(err, io.EOF) {
			return docs
		} else if err != nil {
			t.Fatal(err)
		}
		n := node{T: t}
		testkit.OK(t, errors.Join(all.Decode(&head), all.Decode(&n.value)))
		docs[head.Kind+" "+head.Metadata.Name] = n
	}
}

// at is what is at a path of keys and numbers.
func (n node) at(path string) node {
	n.Helper()
	for part := range strings.SplitSeq(path, ".") {
		var next any
		switch in := n.value.(type) {
		case map[string]any:
			next = in[part]
		case []any:
			if i, err := strconv.Atoi(part); err == nil && i < len(in) {
				next = in[i]
			}
		}
		if next == nil {
			n.Fatalf("there is no %s of %s in %v", part, path, n.value)
		}
		n.value = next
	}
	return n
}

func (n node) text() string { return fmt.Sprint(n.value) }

func (n node) number() int {
	n.Helper()
	number, ok := n.value.(int)
	if !ok {
		n.Fatalf("%v is no number", n.value)
	}
	return number
}

func (n node) list() []node {
	n.Helper()
	values, ok := n.value.([]any)
	if !ok {
		n.Fatalf("%v is no list", n.value)
	}
	var out []node
	for _, v := range values {
		out = append(out, node{n.T, v})
	}
	return out
}

// Whoever follows docs/twelve-teams.md from its first line to its last gets what it shows: two gateways that
// answer, with a key and a share for each team.
func TestRecipe_TwelveTeams(t *testing.T) {
	redistest.New(t) // or the test is skipped
	doc := read(t, "../../../../docs/twelve-teams.md")
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
	_, out := follow(t, read(t, "../../../../docs/cost-reports.md"), ports)
	if want := `"used":0.1`; !strings.Contains(out, want) {
		t.Errorf("%s of the department's budget is not in what was printed:\n%s", want, out)
	}
}

// follow does all that a page says, and returns the folder and what was printed. What the page shows as text has to be in it.
func follow(t *testing.T, doc string, ports map[string]string) (dir, out string) {
	t.Helper()
	dir = t.TempDir()
	script, shown := recipe(t, doc, dir, ports)

	printed := testkit.Must(os.Create(filepath.Join(dir, "printed")))(t)
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
	err := bash.Wait()
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

// waitUntilReady is what a reader does between starting gateways and using them. By then the simulated provider is there, which answers
// some status. Of gateways that share a limit the page says that their logs tell when they have a part of it.
func waitUntilReady(ports map[string]string) string {
	const provider = `until curl -s -o /dev/null localhost:8090; do sleep 0.1; done
`
	const one = `until curl -sf -o /dev/null -H "Authorization: Bearer $ADMIN_TOKEN" localhost:9090/api/v1/snapshot; do sleep 0.1; done
`
	if ports["9091"] == "" {
		return provider + one
	}
	return provider + one + strings.Replace(one, "9090", "9091", 1) + `for log in one.log two.log; do until grep -q 'limits are shared out by the store' $log; do sleep 0.1; done; done
`
}
