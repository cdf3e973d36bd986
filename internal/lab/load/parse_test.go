package load

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/llmgov/llmgov/internal/lab/distribution"
	"github.com/llmgov/llmgov/internal/lib/strictyaml"
	"github.com/llmgov/llmgov/internal/test/testkit"
)

func expand(text string) (string, error) {
	switch text {
	case "${KEY}":
		return "secret", nil
	case "${NO_SUCH_KEY}":
		return "", errors.New("${NO_SUCH_KEY}: NO_SUCH_KEY is not set; set it")
	}
	return text, nil
}

// Every file in testdata/bad ends with the problems that are to be found in it.
func TestBadFiles(t *testing.T) {
	files, err := filepath.Glob("testdata/bad/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no corpus: %v", err)
	}
	for _, file := range files {
		data := testkit.Must(os.ReadFile(file))(t)
		var want []string
		for line := range strings.Lines(string(data)) {
			if text, ok := strings.CutPrefix(line, "# want "); ok {
				want = append(want, strings.TrimSpace(text))
			}
		}
		_, err := Parse(strictyaml.File{Name: file, Data: data, Expand: expand}, DefaultTenant())
		problems, ok := errors.AsType[strictyaml.Problems](err)
		if !ok {
			t.Errorf("%s: got %v, want Problems", file, err)
			continue
		}
		var got []string
		for _, p := range problems {
			got = append(got, fmt.Sprintf("%d:%d: %s", p.Line, p.Col, p.What))
		}
		testkit.Same(t, want, got, file)
	}
}

func TestEveryKeyIsRead(t *testing.T) {
	const file = `
tenants:
  - name: a
    key: "${KEY}"
    model: gpt-4o
    rate: 20
    arrivals: constant
    path: responses
    prompt: {dist: lognormal, mean: 400, sigma: 0.5, min: 10, max: 2000}
    output: {dist: constant, mean: 30}
    max_tokens: 4096
    stream: 0.5
    disconnect: 0.1
    burst: {every: 30s, size: 200}
    storm: {every: 45s, share: 0.25}
    retry: sdk
  - {name: b, rate: 1, prompt: 7}
`
	got := testkit.Must(Parse(strictyaml.File{Name: "t.yaml", Data: []byte(file), Expand: expand}, DefaultTenant()))(t)
	b := DefaultTenant()
	b.Name, b.Rate, b.Prompt = "b", 1, distribution.Constant(7)
	want := []Tenant{{
		Name: "a", Key: "secret", Model: "gpt-4o", Rate: 20, Arrivals: Constant, Path: Responses,
		Prompt: distribution.Distribution{Mean: 400, Sigma: 0.5, Min: 10, Max: 2000},
		Output: distribution.Distribution{Mean: 30, Max: MaxTokens}, MaxTokens: 4096,
		Stream: 0.5, Disconnect: 0.1, Burst: Burst{30 * time.Second, 200}, Storm: Storm{45 * time.Second, 0.25}, Retry: RetrySDK,
	}, b}
	testkit.Same(t, want, got)
}

// The files that docs/load.md shows can be read, and the first one names every default.
func TestDocs(t *testing.T) {
	doc := testkit.Must(os.ReadFile("../../../docs/load.md"))(t)
	blocks := strings.Split(string(doc), "```yaml\n")[1:]
	if len(blocks) != 2 {
		t.Fatalf("%d files in the document, want 2", len(blocks))
	}
	for i, block := range blocks {
		text, _, _ := strings.Cut(block, "```")
		got, err := Parse(strictyaml.File{Name: "docs/load.md", Data: []byte(text)}, Tenant{Stream: float64(i)}) // of its own nothing that the first one says
		if err != nil {
			t.Error(err)
			continue
		}
		want := DefaultTenant()
		if i == 0 && (got[0].Prompt != want.Prompt || got[0].Output != want.Output || got[0].Stream != want.Stream || got[0].Model != want.Model) {
			t.Errorf("the document's defaults are %+v, want %+v", got[0], want)
		}
	}
}

func FuzzParse(f *testing.F) {
	files, _ := filepath.Glob("testdata/bad/*.yaml")
	for _, file := range files {
		data := testkit.Must(os.ReadFile(file))(f)
		f.Add(data)
	}
	f.Add([]byte("tenants: [{name: a, rate: 3, burst: {every: 1s, size: 2}}]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		list, err := Parse(strictyaml.File{Name: "fuzz.yaml", Data: data}, DefaultTenant())
		if err != nil {
			if _, ok := errors.AsType[strictyaml.Problems](err); !ok {
				t.Fatalf("%v is no list of problems", err)
			}
			return
		}
		p := plan(time.Second, list...)
		events := NewSchedule(p)
		for range 100 { // whatever was accepted can be drawn and sent
			ev, ok := events.Next()
			if !ok {
				break
			}
			if ev.Prompt < 0 || ev.Output < 0 || ev.Prompt > MaxTokens || ev.Output > MaxTokens {
				t.Fatalf("%+v", ev)
			}
		}
	})
}
