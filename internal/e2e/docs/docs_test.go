package docs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/llmgov/llmgov/internal/testkit"
	"github.com/llmgov/llmgov/internal/testkit/processtest"
)

// What docs/policies.md shows is what the commands print: each block of it is in a script, which is run, and each
// command is one that a script runs.
func TestPoliciesDoc(t *testing.T) {
	doc := read(t, "../../../docs/policies.md")
	var scripts strings.Builder
	files, _ := filepath.Glob("../../../cmd/llmgov/testdata/script/*.txtar")
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

// TestDocs_IndexListsEveryPage: docs/README.md has each page of the documentation, and no page that does not exist.
func TestDocs_IndexListsEveryPage(t *testing.T) {
	index := read(t, "../../../docs/README.md")
	pages := testkit.Must(filepath.Glob("../../../docs/*.md"))(t)
	for _, page := range pages {
		name := filepath.Base(page)
		if name != "README.md" && !strings.Contains(index, "| ["+name+"]("+name+") |") {
			t.Errorf("docs/README.md does not list %s", name)
		}
	}
	for _, link := range regexp.MustCompile(`\]\(([^)#]+)`).FindAllStringSubmatch(index, -1) {
		if _, err := os.Stat(filepath.Join("../../../docs", link[1])); err != nil {
			t.Errorf("docs/README.md: %v", err)
		}
	}
}

// TestDocs_LinksLead: each link of a page to a file or a heading of this repository leads there.
func TestDocs_LinksLead(t *testing.T) {
	var pages []string
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md", "docs/*/*/*.md"} {
		found := testkit.Must(filepath.Glob("../../../" + pattern))(t)
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

func TestMain(m *testing.M) { processtest.Main(m) }

// read is the text of a file.
func read(t *testing.T, file string) string {
	t.Helper()
	return string(testkit.Must(os.ReadFile(file))(t))
}

var (
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
