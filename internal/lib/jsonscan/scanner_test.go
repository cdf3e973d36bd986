package jsonscan

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/tidwall/gjson"
)

// scan reads a document to its end, and returns the tokens before that. It fails if tokens overlap or
// nothing is passed: then a byte would be read more than once. It fails also if the tokens are others on a processor
// without vectors.
func scan(t testing.TB, body []byte) (tokens []Token, valid bool) {
	t.Helper()
	tokens, valid = scanOnce(t, body)
	if !hasVectors {
		return tokens, valid
	}
	hasVectors = false
	defer func() { hasVectors = true }()
	others, otherwise := scanOnce(t, body)
	if valid != otherwise || !slices.Equal(tokens, others) {
		t.Fatalf("%.200q: valid is %v, and without vectors %v\n%v\n%v", body, valid, otherwise, tokens, others)
	}
	return tokens, valid
}

func scanOnce(t testing.TB, body []byte) (tokens []Token, valid bool) {
	t.Helper()
	s := New(body)
	at := 0
	for {
		token := s.Next()
		switch token.Kind {
		case End:
			return tokens, true
		case Invalid:
			if again := s.Next(); again.Kind != Invalid {
				t.Fatalf("%.200q: behind an error comes %v", body, again)
			}
			return tokens, false
		}
		if token.Start < at || token.End <= token.Start {
			t.Fatalf("%.200q: the token %v begins before %d or has no length", body, token, at)
		}
		at = token.End
		tokens = append(tokens, token)
	}
}

// depthOf is how deeply brackets nest outside of strings.
func depthOf(body []byte) (deepest int) {
	depth := 0
	inString := false
	for i := 0; i < len(body); i++ {
		switch c := body[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '[' || c == '{':
			depth++
			deepest = max(deepest, depth)
		case c == ']' || c == '}':
			depth--
		}
	}
	return deepest
}

// isWellFormed is a second opinion.
func isWellFormed(body []byte) bool {
	return utf8.Valid(body) && depthOf(body) <= MaxDepth && gjson.ValidBytes(body)
}

var samples = []string{
	``, ` `, `{}`, `[]`, `{`, `[`, `}`, `]`, `{]`, `[}`, `{}}`, `[[]`, `{"a":1}`, `{"a":1,}`, `{,"a":1}`, `{"a"}`, `{"a":}`, `{"a" 1}`, `{a:1}`, `{"a":1 "b":2}`, `{1:2}`,
	`[1,2]`, `[1,]`, `[,1]`, `[1 2]`, `[1,,2]`, `{"a":[{"b":[]}]}`, " \t\r\n{ \"a\" : [ 1 , 2 ] } \n", "\v{}", "{}\v", "\ufeff{}", "\u00a0{}", "{}\x00", `{} {}`, `{}1`,
	`0`, `-0`, `-`, `01`, `00`, `1`, `10`, `1.`, `.1`, `1.0`, `-1.5e-7`, `1e`, `1e+`, `1E5`, `1e05`, `+1`, `1a`, `0x1`, `NaN`, `Infinity`, `-Infinity`, `1_0`,
	`true`, `false`, `null`, `tru`, `truex`, `nul`, `True`, `nulll`, `[true,false,null]`,
	`""`, `"`, `"a`, `"\`, `"\"`, `"\""`, `"\\"`, `"\\\"`, `"\x"`, `"\u"`, `"\u12"`, `"\u12g4"`, `"\u1234"`, `"\ud83d\ude00"`, `"\ud800"`, `"\udc00\ud800"`, `"\b\f\n\r\t\/"`, `"\B"`, `"\'"`, `'a'`,
	"\"\n\"", "\"\x00\"", "\"\x1f\"", "\"\x7f\"", "\"\x80\"", "\"é\"", "\"€\"", "\"😀\"", "\"\xc0\x80\"", "\"\xed\xa0\x80\"", "\"\xf4\x90\x80\x80\"", "\"\xf0\x80\x80\x80\"", "\"\xe2\x82\"", "\"\xff\"", "\"\xf5\x80\x80\x80\"", "\"\xc3\"",
	"{\"\xff\":1}", "{\"a\nb\":1}", `{"\u0061":1}`, "é", "[é]", `/* */{}`, `// x`, `{"a":1}//`,
}

// fuzzed are the documents that fuzzing found to take ways of their own through the scanner.
func fuzzed(t testing.TB) (documents []string) {
	t.Helper()
	text := testkit.Must(os.ReadFile("testdata/fuzzed.txt"))(t)
	for line := range strings.Lines(string(text)) {
		document, err := strconv.Unquote(strings.TrimSuffix(line, "\n"))
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		documents = append(documents, document)
	}
	return documents
}

func TestScannerAcceptsWhatIsWellFormed(t *testing.T) {
	for _, document := range fuzzed(t) {
		checkScan(t, []byte(document))
	}
	for _, sample := range samples {
		_, got := scan(t, []byte(sample))
		if want := isWellFormed([]byte(sample)); got != want {
			t.Errorf("%q: valid is %v, want %v", sample, got, want)
		}
		for n := range vectorBlock + 4 { // wherever it stands in a block
			text := `"` + strings.Repeat("x", n)
			behind := strings.Repeat("y", n)
			for _, body := range []string{"[" + text + `",` + sample + "]", text + strings.Trim(sample, `"`) + behind + `"`, text + strings.Trim(sample, `"`) + behind + behind + `"`} {
				if _, got := scan(t, []byte(body)); got != isWellFormed([]byte(body)) {
					t.Errorf("%q: valid is %v", body, got)
				}
			}
		}
	}
}

// Every byte that can be in a string, alone, escaped and beside others.
func TestScannerReadsEveryByteOfStrings(t *testing.T) {
	long := strings.Repeat("x", vectorBlock+1) + `"`
	rests := []string{``, `"`, `x"`, long, `\"` + long, `\\` + long, "\x80\x80\x80\"", "\xbf\"\x80\"", "\x9f\xbf\""}
	for c := range 256 {
		for n := range vectorBlock + 2 {
			befores := []string{``, `\`, `\\`}
			if n%(block-1) > 2 { // not near the edge of a block
				befores = befores[:1]
			}
			for _, before := range befores {
				start := `"` + strings.Repeat("~", n) + before + string([]byte{byte(c)})
				for _, rest := range rests {
					body := []byte(start + rest)
					if _, got := scan(t, body); got != isWellFormed(body) {
						t.Fatalf("%q: valid is %v", body, got)
					}
				}
			}
		}
	}
}

// Runs of backslashes, which end strings or do not, wherever they stand in a block.
func TestScannerReadsRunsOfBackslashes(t *testing.T) {
	for before := range vectorBlock + 2 {
		for run := range vectorBlock + 2 {
			for _, rest := range []string{`"`, `n"`, `u00e9"`, `x"`} {
				body := []byte(`"` + strings.Repeat("~", before) + strings.Repeat(`\`, run) + rest + strings.Repeat(" ", vectorBlock))
				if _, got := scan(t, body); got != isWellFormed(body) {
					t.Fatalf("%q: valid is %v", body, got)
				}
			}
		}
	}
}

// Short escapes, wherever they stand, do not stop the vectors; everything else behind a backslash does.
func TestVectorsPassShortEscapes(t *testing.T) {
	if !hasVectors {
		t.Skip("this processor has no vectors")
	}
	for c := range 256 {
		for n := range 2 * vectorBlock {
			text := strings.Repeat("~", n) + `\` + string([]byte{byte(c)}) + strings.Repeat("~", 3*vectorBlock)
			want := len(text) / vectorBlock * vectorBlock
			if !isShortEscape[c] {
				want = n
			}
			if end, escaped := plainBlocks([]byte(text)); end != want || !escaped {
				t.Fatalf("%q: %d, %v, want %d", text, end, escaped, want)
			}
		}
	}
}

func TestScannerBoundsDepth(t *testing.T) {
	for _, pair := range [][3]string{{"[", "1", "]"}, {`{"a":`, "1", "}"}, {`[{"a":`, "[]", "}]"}} {
		for depth := MaxDepth/2 - 2; depth <= MaxDepth+2; depth++ {
			body := []byte(strings.Repeat(pair[0], depth) + pair[1] + strings.Repeat(pair[2], depth))
			if _, got := scan(t, body); got != isWellFormed(body) {
				t.Fatalf("%d × %s: valid is %v", depth, pair[0], got)
			}
		}
	}
}

// spoken says a token stream in the words of encoding/json.
func spoken(body []byte, tokens []Token) (said []string) {
	for _, t := range tokens {
		raw := body[t.Start:t.End]
		switch t.Kind {
		case Key, String:
			said = append(said, fmt.Sprintf("%q", Unescape(nil, raw)))
			if t.Escaped != bytes.ContainsRune(raw, '\\') {
				said = append(said, "escaped is wrong")
			}
		case Number:
			said = append(said, "number "+string(raw))
		default:
			said = append(said, string(raw))
		}
	}
	return said
}

// standard is what encoding/json says of a document that is well formed.
func standard(body []byte) (said []string) {
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	for {
		token, err := d.Token()
		if err != nil {
			return said
		}
		switch token := token.(type) {
		case string:
			said = append(said, fmt.Sprintf("%q", token))
		case json.Number:
			said = append(said, "number "+token.String())
		case nil:
			said = append(said, "null")
		default:
			said = append(said, fmt.Sprint(token))
		}
	}
}

// FuzzScanner compares the scanner with gjson's and encoding/json's readers.
func FuzzScanner(f *testing.F) {
	for _, sample := range samples {
		f.Add([]byte(sample))
	}
	f.Add([]byte(`{"model":"gpt-4o","messages":[{"role":"user","content":"Ein längerer Text \u2014 with \"quotes\", and\nmore"}],"n":1.5e3}`))
	for _, document := range fuzzed(f) {
		f.Add([]byte(document))
	}
	f.Fuzz(func(t *testing.T, body []byte) { checkScan(t, body) })
}

var spaces = bytes.Repeat([]byte(" "), 2*vectorBlock)

// checkScan compares the scanner with gjson's and encoding/json's readers.
func checkScan(t *testing.T, body []byte) {
	t.Helper()
	tokens, valid := scan(t, body)
	if want := isWellFormed(body); valid != want {
		t.Fatalf("valid is %v, want %v\n%q", valid, want, body)
	}
	// Space behind a document changes nothing but that vectors read to its very end.
	spacious, still := scan(t, append(bytes.Clone(body), spaces...))
	if still != valid || !slices.Equal(spacious, tokens) {
		t.Fatalf("valid is %v, and with space behind it %v\n%q", valid, still, body)
	}
	if valid != (json.Valid(body) && utf8.Valid(body) && depthOf(body) <= MaxDepth) {
		t.Fatalf("valid is %v, and not to encoding/json\n%q", valid, body)
	}
	if !valid {
		return
	}
	got := fmt.Sprint(spoken(body, tokens))
	if want := fmt.Sprint(standard(body)); got != want {
		t.Fatalf("%q\n got %s\nwant %s", body, got, want)
	}
}

// randomJSON is a document, most often well formed.
func randomJSON(r *rand.Rand, depth int) string {
	space := []string{"", "", "", " ", "\n", "\t\r "}[r.Intn(6)]
	kind := r.Intn(8)
	if depth > 5 {
		kind = r.Intn(6)
	}
	switch kind {
	case 0, 1, 2:
		var text strings.Builder
		for range r.Intn(12) {
			text.WriteString([]string{"word ", "é", "€", "😀", `\n`, `\"`, `\\`, `\u00e9`, `\ud83d\ude00`, `\ud800`, strings.Repeat("long ", r.Intn(20)), "\x7f"}[r.Intn(12)])
		}
		return space + `"` + text.String() + `"` + space
	case 3:
		return space + []string{"0", "-1", "12.5", "1e9", "-0.1E-2", "123456789"}[r.Intn(6)] + space
	case 4, 5:
		return space + []string{"true", "false", "null"}[r.Intn(3)] + space
	case 6:
		var list []string
		for range r.Intn(4) {
			list = append(list, randomJSON(r, depth+1))
		}
		return space + "[" + space + strings.Join(list, ",") + "]" + space
	}
	var list []string
	for range r.Intn(4) {
		list = append(list, space+[]string{`"a"`, `""`, `"\u0061"`, `"key"`}[r.Intn(4)]+space+":"+randomJSON(r, depth+1))
	}
	return space + "{" + space + strings.Join(list, ",") + "}" + space
}

func TestScannerAgreesOnRandomDocuments(t *testing.T) {
	r := rand.New(rand.NewSource(1))
	for range 20_000 {
		body := []byte(randomJSON(r, 0))
		if r.Intn(2) == 0 {
			body[r.Intn(len(body))] = byte(r.Intn(256))
		}
		checkScan(t, body)
	}
}

// longest is the length of the longest hostile documents, and shortLongest that with -short. A scanner that needs quadratic
// time for a token of the former runs into the time limit of the test binary.
const (
	shortLongest = 1 << 18
	longest      = 1 << 23
)

// Whatever a body is made of, it is read in steps that each pass at least a byte, what was passed is not looked at again,
// and nothing is allocated.
//
// Seen to fail with: a comma that looks at the byte before it; a copy of the string at each rune. Seen to run into the time
// limit with a string that is searched from its beginning at each rune.
func TestScannerReadsOnce(t *testing.T) {
	for name, build := range map[string]func(n int) string{
		"too deep": func(n int) string { return strings.Repeat("[", n) },
		"deep again and again": func(n int) string {
			return "[" + strings.Repeat(strings.Repeat("[", 64)+strings.Repeat("],", 63)+"],", n/192) + "1]"
		},
		"a million keys":          func(n int) string { return "{" + strings.Repeat(`"k":1,`, n/6) + `"k":1}` }, // with -short fewer
		"a string of escapes":     func(n int) string { return `"` + strings.Repeat(`\"`, n/2) + `"` },
		"a string of long ones":   func(n int) string { return `"` + strings.Repeat(`\u00e9`, n/6) + `"` },
		"backslashes":             func(n int) string { return `"` + strings.Repeat(`\\`, n/2) },
		"an unterminated string":  func(n int) string { return `"` + strings.Repeat("x", n) },
		"an unterminated key":     func(n int) string { return `{"` + strings.Repeat("x", n) },
		"the last unterminated":   func(n int) string { return "[" + strings.Repeat(`"x",`, n/4) + `"x` },
		"unterminated everything": func(n int) string { return strings.Repeat(`{"x":[`, 400) + strings.Repeat(`"x",`, n/4) + `["x` },
		"an unterminated number":  func(n int) string { return strings.Repeat("1", n) },
		"runes":                   func(n int) string { return `"` + strings.Repeat("€", n/3) + `"` },
		"rune by rune":            func(n int) string { return `"` + strings.Repeat("€x", n/4) + `"` },
		"space":                   func(n int) string { return strings.Repeat(" ", n) },
		"words":                   func(n int) string { return "[" + strings.Repeat("null,", n/5) + "null]" },
	} {
		for n := 1 << 10; n <= shortLongest; n *= 2 {
			checkReadsOnce(t, name, build(n))
		}
		if !testing.Short() {
			checkReadsOnce(t, name, build(longest))
		}
	}
}

func checkReadsOnce(t *testing.T, name, document string) {
	t.Helper()
	defer func(had bool) { hasVectors = had }(hasVectors)
	for _, vectors := range []bool{hasVectors, false} {
		hasVectors = vectors
		checkSteps(t, name, []byte(document))
	}
}

// checkSteps overwrites the body.
func checkSteps(t *testing.T, name string, body []byte) {
	t.Helper()
	steps := 0
	read := func() {
		s := New(body)
		for steps = 1; ; steps++ {
			if kind := s.Next().Kind; kind == End || kind == Invalid {
				return
			}
		}
	}
	read()
	if steps > len(body)+1 {
		t.Errorf("%s: %d steps for %d bytes", name, steps, len(body))
	}
	if !testkit.Race {
		if n := testkit.Allocs(t, 4, read); n > 0 {
			t.Errorf("%s: %d allocations", name, n)
		}
	}
	want := steps
	if steps = forgetting(body); steps != want {
		t.Errorf("%s: %d steps for %d bytes, and %d if what was passed is overwritten", name, want, len(body), steps)
	}
}

// forgetting counts the steps in which a document is read, and overwrites what each of them passed.
func forgetting(body []byte) (steps int) {
	s := New(body)
	passed := 0
	for steps = 1; ; steps++ {
		token := s.Next()
		if token.Kind == End || token.Kind == Invalid {
			return steps
		}
		for ; passed < token.End; passed++ {
			body[passed] = 0
		}
	}
}
