package strictyaml

import (
	"strings"
	"testing"
	"time"

	"github.com/llmgov/llmgov/internal/test/testkit"
)

type limits struct {
	rate    float64
	calls   int64
	every   time.Duration
	mode    int
	nested  bool
	entries int
}

// readLimits reads a file by a function for each key.
func readLimits(text string) (limits, error) {
	into := limits{rate: 1, calls: 2, every: time.Second}
	err := Read(File{Name: "f.yaml", Data: []byte(text), Least: "rate:", Expand: Expander([]string{"SECRET=sesame"})}, func(top Value) {
		top.Fields(map[string]func(Value){
			"rate":   func(v Value) { v.Number(&into.rate, 0, 10) },
			"calls":  func(v Value) { v.Whole(&into.calls, 1, 10) },
			"every":  func(v Value) { v.Duration(&into.every, 0, time.Minute) },
			"mode":   func(v Value) { OneOf(v, &into.mode, map[string]int{"open": 1, "closed": 2}) },
			"nested": func(v Value) { v.Fields(map[string]func(Value){"deep": func(Value) { into.nested = true }}) },
			"list":   func(v Value) { v.Each(func(Value) { into.entries++ }) },
		})
	})
	return into, err
}

func TestReadTakesEveryKey(t *testing.T) {
	got := testkit.Must(readLimits("rate: 0.5\ncalls: 1_0\nevery: 30s\nmode: closed\nnested: {deep: 1}\nlist: [a, b]\n"))(t)
	want := limits{rate: 0.5, calls: 10, every: 30 * time.Second, mode: 2, nested: true, entries: 2}
	if got != want {
		t.Errorf("read %+v, want %+v", got, want)
	}
}

// All problems of a file are found at once, each with its place, and targets stay as they were.
func TestReadReportsEveryProblem(t *testing.T) {
	const text = `rat: 1
rate: 11
calls: "${SECRET}"
every: 5
mode: clsoed
nested: x
list:
  - &a 1
  - *a
rate: 3
`
	want := `f.yaml:1:1: unknown key "rat"; did you mean "rate"?
f.yaml:2:7: rate: 11 is out of range; write 0 to 10
f.yaml:3:8: calls: the value of "${SECRET}" is not a plain whole number; write digits, such as 60000
f.yaml:4:8: every: 5 has no unit; write 5s or 5ms
f.yaml:5:7: mode: "clsoed" is none of the known words; did you mean "closed"?
f.yaml:6:9: nested: is a single value; write a mapping (key: value)
f.yaml:8:5: anchor &a is not supported; write the value out where it is needed
f.yaml:9:5: alias *a is not supported; write the value out
f.yaml:10:1: duplicate key "rate"; it is first written at f.yaml:2:1, remove one`
	got, err := readLimits(text)
	if err == nil {
		t.Fatal("no error")
	}
	testkit.Same(t, want, err.Error())
	if left := (limits{rate: 1, calls: 2, every: time.Second, entries: 2}); got != left {
		t.Errorf("what was refused changed its target: %+v", got)
	}
}

func TestReadOfAnEmptyFile(t *testing.T) {
	_, err := readLimits("# nothing\n")
	if want := "f.yaml:1:1: file is empty; write at least rate:"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestExpand(t *testing.T) {
	env := map[string]string{"A": "x", "EMPTY": "", "REF": "${A}"}
	for _, c := range []struct{ text, want, fails string }{
		{text: "plain", want: "plain"},
		{text: "${A}-${A}", want: "x-x"},
		{text: "${REF}", want: "${A}"}, // not expanded again
		{text: "${NO:-d:-e}", want: "d:-e"},
		{text: "${NO:-}", want: ""},
		{text: "${EMPTY}", want: ""},
		{text: "${EMPTY:-d}", want: "d"},
		{text: "$$${A}$$", want: "$x$"},
		{text: "$${A}", want: "${A}"},
		{text: "$A $ ${A}$", want: "$A $ x$"},
		{text: "${NO}", fails: "NO is not set"},
		{text: "${A", fails: "without }"},
		{text: "${A:d}", fails: "not the name"},
		{text: "${NO:-${A}}", fails: "inside the default"},
	} {
		got, err := expand(c.text, env)
		if got != c.want || (err == nil) != (c.fails == "") || err != nil && !strings.Contains(err.Error(), c.fails) {
			t.Errorf("expand(%q) = %q, %v; want %q, error %q", c.text, got, err, c.want, c.fails)
		}
	}
}
