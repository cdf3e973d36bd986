package head

import (
	"fmt"
	"strings"
	"testing"

	"github.com/llmgov/llmgov/internal/lib/jsonscan"
	"github.com/llmgov/llmgov/internal/test/testkit"
)

// nested wraps the text in the middle depth times.
func nested(depth int, before, middle, after string) string {
	return strings.Repeat(before, depth) + middle + strings.Repeat(after, depth)
}

// hostile are bodies that cost much if something in them is read more than a few times. All have about
// size bytes.
var hostile = map[string]func(size int) string{
	"tools in tools": func(size int) string {
		return `{"tools":` + nested(480, `[{"tools":`, `["`+strings.Repeat("x", size)+`"]`, `}]`) + `}`
	},
	"tools three deep, with parameters": func(size int) string {
		tool := `{"type":"openrouter:x","parameters":{"tools":[{"type":"openrouter:x","parameters":{"tools":[{"type":"openrouter:x","x":"` + strings.Repeat("x", size) + `"}]}}]}}`
		return `{"tools":[` + tool + `]}`
	},
	"tools in plugins": func(size int) string {
		return `{"plugins":` + nested(240, `[{"id":"a","parameters":{"tools":`, `[{"x":"`+strings.Repeat("x", size)+`"}]`, `}}]`) + `}`
	},
	"tools in extra_body": func(size int) string {
		return `{"extra_body":{"tools":` + nested(480, `[{"tools":`, `["`+strings.Repeat("x", size)+`"]`, `}]`) + `}}`
	},
	"extra_body in extra_body": func(size int) string {
		return nested(900, `{"extra_body":`, `{"x":"`+strings.Repeat("x", size)+`"}`, `}`)
	},
	"many extra_body": func(size int) string {
		return `{"extra_body":{` + strings.Repeat(`"tools":[{"tools":[{}]}],`, size/25) + `"x":1}}`
	},
	"keys": func(size int) string {
		var b strings.Builder
		for i := 0; b.Len() < size; i++ {
			fmt.Fprintf(&b, `"key%d":%d,`, i, i)
		}
		return `{` + b.String() + `"x":1}`
	},
	"keys with escapes":       func(size int) string { return `{` + strings.Repeat(`"\u006dodem":1,`, size/15) + `"x":1}` },
	"governed keys":           func(size int) string { return `{` + strings.Repeat(`"model":"m",`, size/12) + `"x":1}` },
	"models":                  func(size int) string { return `{"models":[` + strings.Repeat(`"m",`, size/4) + `"m"]}` },
	"fallbacks":               func(size int) string { return `{"fallbacks":[{` + strings.Repeat(`"x":1,`, size/6) + `"model":"m"}]}` },
	"empty arrays":            func(size int) string { return `{"x":[` + strings.Repeat(`[],`, size/3) + `[]]}` },
	"deep arrays":             func(size int) string { return `{"x":` + nested(900, `[`, strings.Repeat(`1,`, size/2)+`1`, `]`) + `}` },
	"too deep":                func(size int) string { return strings.Repeat(`[`, size) },
	"escapes":                 func(size int) string { return `{"x":"` + strings.Repeat(`\"`, size/2) + `"}` },
	"backslashes":             func(size int) string { return `{"x":"` + strings.Repeat(`\\`, size/2) + `"}` },
	"an unterminated string":  func(size int) string { return `{"x":"` + strings.Repeat(`\\`, size/2) },
	"an unterminated key":     func(size int) string { return `{"` + strings.Repeat("x", size) },
	"unterminated at the end": func(size int) string { return `{"x":[` + strings.Repeat(`"x",`, size/4) + `"x` },
	"unterminated objects":    func(size int) string { return `{"tools":[{"x":"` + strings.Repeat("x", size) },
	"unterminated everything": func(size int) string {
		return strings.Repeat(`{"x":[`, 400) + strings.Repeat(`{"id":"x"},`, size/11) + `["x`
	},
	"wrong at the end":         func(size int) string { return `{"tools":[` + strings.Repeat(`{"type":"fusion"},`, size/18) + `]}` },
	"keys like governed ones":  func(size int) string { return `{` + strings.Repeat(`"ſtreaK":1,`, size/13) + `"x":1}` },
	"names that are alike":     func(size int) string { return `{"tools":[{` + strings.Repeat(`"Model":"m",`, size/12) + `"x":1}]}` },
	"ids of one object":        func(size int) string { return `{"input":[{` + strings.Repeat(`"id":"x",`, size/9) + `"x":1}]}` },
	"escapes of a tool":        func(size int) string { return `{"tools":[{"type":"` + strings.Repeat(`\u0061`, size/6) + `"}]}` },
	"context_window_fallbacks": func(size int) string { return `{"context_window_fallbacks":[` + strings.Repeat(`{},`, size/3) + `{}]}` },
	"references":               func(size int) string { return `{"x":[` + strings.Repeat(`{"file_id":"f"},`, size/16) + `{}]}` },
	"prompts":                  func(size int) string { return `{"prompt":[` + strings.Repeat(`"",`, size/3) + `""]}` },
	"stream options":           func(size int) string { return `{"stream_options":{` + strings.Repeat(`"x":1,`, size/6) + `"y":1}}` },
	"provider options": func(size int) string {
		return `{"providerOptions":{` + strings.Repeat(`"x":{"models":["m"]},`, size/21) + `"y":1}}`
	},
}

// work is what reading a body takes: the bytes of its tokens, those of values that are read again, and of a body that is
// not well formed, the rest and what malformed reads.
func work(body []byte) int {
	h := &Head{}
	_ = new(Reader).Read(h, body)
	read := h.scanned
	s := jsonscan.New(body)
	token := s.Next()
	for ; token.Kind > jsonscan.Invalid; token = s.Next() {
		read += token.End - token.Start
	}
	if token.Kind == jsonscan.Invalid {
		read += len(body) - token.Start
		read += 2 * len(body)
	}
	return read
}

// longest is the length of the longest hostile bodies, which is that of a million keys. A reader that needs quadratic time
// for one of them runs into the time limit of the test binary.
const longest = 18 << 20

// However a body nests and repeats, and wherever it ends, it is read a fixed number of times, and a body of twice the size
// takes twice the work and twice the allocations.
//
// Seen to fail with: tools of any depth. Seen to run into the time limit with a list of all keys so far, in which each
// further one is looked for; with brackets that are counted anew at each of them, to say that there are too many.
func TestAudit_M1_WorkIsLinear(t *testing.T) {
	const size = 32 << 10
	// Tools nest three deep, each level is read up to four times, for itself and below those above it.
	const most = 32
	for name, build := range hostile {
		t.Run(name, func(t *testing.T) {
			var before, allocations uint64
			for n := size; n <= 4*size; n *= 2 {
				body := []byte(build(n))
				if got := work(body); got > most*len(body) {
					t.Errorf("of %d bytes %d are read, %d times each", len(body), got, got/len(body))
				}
				line, _ := ReadLine([]byte(`{"url":"/v1/chat/completions","body":`+string(body)+`}`), anyURL)
				if line.Head != nil && line.Head.scanned > most*len(body) {
					t.Errorf("of a batch's line of %d bytes %d are read", len(body), line.Head.scanned)
				}
				allocations = testkit.Allocs(t, 4, func() {
					if h, err := Read(body); err == nil {
						_, _ = h.References()
					}
				})
				if before > 0 && 5*allocations > 11*before+500 {
					t.Errorf("%d bytes take %d allocations, half as many %d", len(body), allocations, before)
				}
				before = allocations
			}
			if !testing.Short() {
				_, _ = Read([]byte(build(longest)))
			}
		})
	}
}

// Tools nest as deeply as providers have them, and no deeper.
func TestAudit_M1_DepthOfTools(t *testing.T) {
	for depth, ok := range map[int]bool{1: true, 3: true, 4: false, 400: false} {
		body := `{"tools":` + nested(depth, `[{"tools":`, `0`, `}]`) + `}`
		if _, err := Read([]byte(body)); (err == nil) != ok {
			t.Errorf("%d levels: %v", depth, err)
		}
		inner := `{"plugins":[{"id":"a","parameters":{"tools":` + nested(depth-1, `[{"tools":`, `0`, `}]`) + `}}]}`
		if _, err := Read([]byte(inner)); (err == nil) != ok {
			t.Errorf("%d levels in plugins: %v", depth, err)
		}
	}
	many := `{"models":["m"` + strings.Repeat(`,"m"`, maxOthers) + `]}`
	if _, err := Read([]byte(many)); err == nil || !strings.Contains(err.Message, "more than 100") {
		t.Errorf("%d models: %v", maxOthers+1, err)
	}
}

// A list of ids is not kept at many times the size of its body: beyond a bound, nothing of it is.
func TestRead_ManyReferences(t *testing.T) {
	for name, body := range map[string]string{
		"a list of ids":         `{"model":"m","file_ids":["` + strings.Repeat(`","`, 5*mostReferences) + `"]}`,
		"another route's":       `{"model":"m","training_file":["` + strings.Repeat(`","`, 5*mostReferences) + `"]}`,
		"ids of one object":     `{"model":"m","x":{"id":"` + strings.Repeat(`","id":"`, 5*mostReferences) + `"}}`,
		"ids of nested objects": `{"model":"m","input":[` + strings.Repeat(`{"type":"item_reference","id":"a"},`, 2*mostReferences) + `{}]}`,
	} {
		r := new(Reader)
		h := &Head{}
		err := r.Read(h, []byte(body))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		refs, problem := h.References()
		if len(refs) > 0 || problem == nil || cap(r.refs.names) > 4*mostReferences {
			t.Errorf("%s: %d references are kept, %v", name, len(refs), problem)
		}
	}
}

// The prompt of a line in a batch file is weighed as that of a call.
func TestReadLine_Size(t *testing.T) {
	body := `{"model":"m","messages":[{"role":"user","content":"` + strings.Repeat("hello world ", 5000) + `"}]}`
	l, err := ReadLine([]byte(`{"custom_id":"1","method":"POST","url":"/v1/chat/completions","body":`+body+`}`), func(string) bool { return true })
	if err != nil {
		t.Fatal(err)
	}
	h, err := Read([]byte(body))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := l.Head.Size(0), h.Size(0); got[0] < want[0]*9/10 || got[0] > want[0]*11/10 || want[0] == 0 {
		t.Errorf("a line weighs %v, its body alone %v", got, want)
	}
}
