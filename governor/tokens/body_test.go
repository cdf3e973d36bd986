package tokens

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/tidwall/gjson"
	"pgregory.net/rapid"

	"github.com/llmgov/llmgov/internal/lib/jsonscan"
	"github.com/llmgov/llmgov/internal/test/testkit"
)

// prose is of n bytes and of base64 digits alone, and a model reads it well.
func prose(n int) string { return strings.Repeat("HelloMyFriend", n/13+1)[:n] }

// Words that no space parts are text, wherever they stand that a model may read them, and whatever
// is written around them.
func TestAudit_H1_WordsWithoutSpacesAreText(t *testing.T) {
	const n = 400_000
	long := prose(n)
	for name, body := range map[string]string{
		"hyphens":                  `{"messages":[{"role":"user","content":"` + strings.Repeat("a-prompt-", n/9) + `"}]}`,
		"underscores":              `{"messages":[{"role":"user","content":"` + strings.Repeat("a_prompt_", n/9) + `"}]}`,
		"escapes":                  `{"messages":[{"role":"user","content":"` + strings.Repeat(`\u0061\u002d`, n/12) + `"}]}`,
		"letters":                  `{"messages":[{"role":"user","content":"` + long + `"}]}`,
		"a short data URL":         `{"messages":[{"role":"user","content":[{"type":"file","file":{"file_data":"` + long + `"}}]}]}`,
		"data: in a text":          `{"messages":[{"role":"user","content":"data:image/png;base64,` + long + `"}]}`,
		"a text part":              `{"messages":[{"role":"user","content":[{"type":"text","text":"data:image/png;base64,` + long + `"}]}]}`,
		"a data URL of text":       `{"messages":[{"role":"user","content":[{"type":"file","file":{"file_data":"data:text/plain;base64,` + long + `"}}]}]}`,
		"a PDF":                    `{"input":[{"role":"user","content":[{"type":"input_file","file_data":"data:application/pdf;base64,` + long + `"}]}]}`,
		"a document":               `{"messages":[{"role":"user","content":[{"type":"document","source":{"type":"base64","media_type":"text/plain","data":"` + long + `"}}]}]}`,
		"a document called image":  `{"messages":[{"role":"user","content":[{"type":"image","type":"document","source":{"type":"text","data":"` + long + `"}}]}]}`,
		"hyphens in an image":      `{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,` + strings.Repeat("a-prompt-", n/9) + `"}}]}]}`,
		"an image without base64":  `{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png,` + long + `"}}]}]}`,
		"an argument":              `{"messages":[{"role":"assistant","content":[{"type":"tool_use","input":{"content":[{"type":"image","source":{"type":"base64","data":"` + long + `"}}]}}]}]}`,
		"a schema":                 `{"tools":[{"type":"function","function":{"parameters":{"messages":[{"content":[{"type":"image","source":{"data":"` + long + `"}}]}]}}}]}`,
		"metadata":                 `{"metadata":{"type":"image","data":"` + long + `"}}`,
		"data at the top":          `{"type":"image","data":"` + long + `","b64_json":"` + long + `"}`,
		"data in a message":        `{"messages":[{"role":"user","type":"image","data":"` + long + `"}]}`,
		"a result of a tool":       `{"messages":[{"role":"tool","content":"{\"type\":\"image\",\"data\":\"` + long + `\"}"}]}`,
		"an image of text":         `{"messages":[{"role":"user","content":[{"type":"image","text":"` + long + `"}]}]}`,
		"a prompt":                 `{"prompt":"` + long + `"}`,
		"an input":                 `{"input":["` + long + `"]}`,
		"behind an escaped quote":  `{"input":"\\\"` + long + `"}`,
		"sound that is text":       `{"messages":[{"role":"user","content":[{"type":"text","input_audio":{"data":"` + long + `"}}]}]}`,
		"a key":                    `{"` + long + `":1}`,
		"an object for a list":     `{"messages":{"content":[{"type":"image","source":{"data":"` + long + `"}}]}}`,
		"a response in an input":   `{"input":[{"response":{"input":[{"type":"image","source":{"data":"` + long + `"}}]}}]}`,
		"deeper than a part's own": `{"messages":[{"content":[{"type":"image","source":{"x":{"data":"` + long + `"}}}]}]}`,
	} {
		got := Measure([]byte(body))
		least := int64(n * letterWeight * 9 / 10)
		if name == "escapes" {
			least /= 6
		}
		if got := got.Size.Text() + got.Size[Document]; got < least {
			t.Errorf("%s: %d bytes weigh %d tokens", name, n, got/Scale)
		}
		if least := got.Least(); least > n/2 {
			t.Errorf("%s: it has at least %d tokens, which is a guess", name, least)
		}
	}
}

// What is known to be a picture or sound weighs as such, and what is only referred to is noticed,
// also where escapes or upper case hide it.
func TestMeasure_Files(t *testing.T) {
	const n = 400_000
	base64 := prose(n)
	image := Pictures(1)
	sound := SoundOf(n / 4 * 3)
	for _, c := range []struct {
		name, body   string
		image, sound int64
		unseen       int64
		files        []File
	}{
		{"chat, inline", `{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,` + base64 + `"}}]}]}`, image, 0, 0, nil},
		{"slashes escaped", `{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image\/png;base64,` + base64[:n-2] + `\/"}}]}]}`, image, 0, 0, nil},
		{"type behind", `{"messages":[{"role":"user","content":[{"image_url":{"url":"data:image/png;base64,` + base64 + `"},"type":"image_url"}]}]}`, image, 0, 0, nil},
		{"chat, by address", `{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://a/b"}},{"type":"image_url","image_url":{"url":"https://a/c"}}]}]}`, 2 * image, 0, 0, nil},
		{"escaped", `{"messages":[{"role":"user","content":[{"type":"im\u0061ge_url","image_\u0075rl":{"url":"h\u0074tps\u003a//a/b"}}]}]}`, image, 0, 0, nil},
		{"in upper case", `{"Messages":[{"role":"user","Content":[{"Type":"Image_URL","Image_URL":{"URL":"https://a/b"}}]}]}`, image, 0, 0, nil},
		{"responses, inline", `{"input":[{"role":"user","content":[{"type":"input_image","image_url":"data:image/png;base64,` + base64 + `"}]}]}`, image, 0, 0, nil},
		{"a screenshot", `{"input":[{"type":"computer_call_output","output":{"type":"computer_screenshot","image_url":"data:image/png;base64,` + base64 + `"}}]}`, image, 0, 0, nil},
		{"an image made before", `{"input":[{"type":"image_generation_call","result":"` + base64 + `"}]}`, image, 0, 0, nil},
		{"messages, inline", `{"messages":[{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"` + base64 + `"}}]}]}`, image, 0, 0, nil},
		{"messages, by address", `{"messages":[{"role":"user","content":[{"type":"image","source":{"type":"url","url":"https://a/b"}}]}]}`, image, 0, 0, nil},
		{"of a tool", `{"messages":[{"role":"user","content":[{"type":"tool_result","content":[{"type":"image","source":{"type":"base64","data":"` + base64 + `"}}]}]}]}`, image, 0, 0, nil},
		{"an event", `{"type":"conversation.item.create","item":{"type":"message","content":[{"type":"input_image","image_url":"data:image/png;base64,` + base64 + `"}]}}`, image, 0, 0, nil},
		{"sound", `{"messages":[{"role":"user","content":[{"type":"input_audio","input_audio":{"data":"` + base64 + `","format":"mp3"}}]}]}`, 0, sound, 0, nil},
		{"a document by address", `{"messages":[{"role":"user","content":[{"type":"document","source":{"type":"url","url":"https://a/b"}}]}]}`, 0, 0, 1, nil},
		{"a file by address", `{"input":[{"role":"user","content":[{"type":"input_file","file_url":"https://a/b"}]}]}`, 0, 0, 1, nil},
		{"two types, by address", `{"messages":[{"role":"user","content":[{"type":"image_url","type":"file","image_url":{"url":"https://a/b"}}]}]}`, 0, 0, 1, nil},
		{"a file by id", `{"messages":[{"role":"user","content":[{"type":"file","file":{"file_id":"file-1"}},{"type":"input_image","file_id":"file-2"}]}]}`, 0, 0, 0, []File{{"file-1", Document}, {"file-2", Image}}},
		{"a stored prompt", `{"prompt":{"id":"pmpt_1"}}`, 0, 0, 1, nil},
		{"a tool of the provider", `{"input":"a","tools":[{"type":"web_search"},{"type":"function","name":"f"},{"type":"function","type":"file_search"}]}`, 0, 0, 2, nil},
		{"a namespace of the caller's tools", `{"tools":[{"type":"namespace","name":"agents","tools":[{"type":"function","name":"f"},{"type":"custom","name":"g"}]}]}`, 0, 0, 0, nil},
		{"a tool of the provider in a namespace", `{"tools":[{"tools":[{"type":"function"},{"type":"file_search"},{"type":"web_search"}],"type":"namespace"}]}`, 0, 0, 2, nil},
		{"Anthropic's own tools", `{"tools":[{"name":"f","input_schema":{"type":"object"}},{"type":"custom","name":"g"}]}`, 0, 0, 0, nil},
		{"an argument is none", `{"messages":[{"role":"assistant","content":[{"type":"tool_use","input":{"url":"https://a/b","file_id":"x"}}]}]}`, 0, 0, 0, nil},
		{"nor is a citation", `{"input":[{"content":[{"type":"output_text","text":"a","annotations":[{"type":"url_citation","url":"https://a/b"}]}]}]}`, 0, 0, 0, nil},
	} {
		got := Measure([]byte(c.body))
		if got.Size[Image] != c.image || got.Size[Sound] != c.sound || got.Unseen != c.unseen || !slices.Equal(got.Files, c.files) {
			t.Errorf("%s: images %d, sound %d, unseen %d, files %v", c.name, got.Size[Image]/Scale, got.Size[Sound]/Scale, got.Unseen, got.Files)
		}
		if c.image+c.sound > 0 && got.Text() > 200*Scale {
			t.Errorf("%s: its text weighs %d tokens", c.name, got.Text()/Scale)
		}
	}
}

// A file of text in base64 weighs what its text does, also if it is long, or its slashes are escaped; a PDF as prose of its length.
//
// Seen to fail with: the weight of the base64; digits that are grouped from anywhere on.
func TestMeasure_FilesOfText(t *testing.T) {
	for _, n := range []int{1, 2, 100, 60_000} {
		for _, text := range []string{"zqxj ", "1 2 3 ", "?>?>~~", "世界"} {
			said := strings.Repeat(text, n)
			digits := base64.StdEncoding.EncodeToString([]byte(said))
			escaped := strings.ReplaceAll(digits, "/", `\/`)
			for _, part := range []string{
				`{"type":"input_file","filename":"a.txt","file_data":"data:text/plain;base64,` + digits + `"}`,
				`{"type":"file","file":{"file_data":"data:application\/json;base64,` + escaped + `"}}`,
				`{"type":"document","source":{"type":"base64","media_type":"text/plain","data":"` + digits + `"}}`,
				`{"type":"image_url","image_url":{"url":"data:Text/plain;base64,` + digits + `"}}`,
			} {
				m := Measure([]byte(`{"messages":[{"content":[` + part + `]}]}`))
				got := m.Text()
				want := Weigh([]byte(said)) + Weigh([]byte(part)) - Weigh([]byte(digits))
				if strings.Contains(part, `\/`) {
					want = Weigh([]byte(said)) + Weigh([]byte(part)) - Weigh([]byte(escaped))
				}
				if off := max(got-want, want-got); off > 1000+want/20 || len(m.Apart) != 1 || m.Weight() != got {
					t.Errorf("%.100s: text weighs %d, want %d; all %d", part, got, want, m.Weight())
				}
			}
		}
	}
	pdf := base64.StdEncoding.EncodeToString([]byte("%PDF-1.4" + strings.Repeat("zqxj ", 3000)))
	m := Measure([]byte(`{"input":[{"content":[{"type":"input_file","file_data":"data:application/pdf;base64,` + pdf + `"}]}]}`))
	if m.Size[Document] < int64(len(pdf))*letterWeight || m.Text() > 200*letterWeight {
		t.Errorf("a PDF is %v", m.Size)
	}
}

// Some decoders pass over padding that nothing needs, wherever it stands.
//
// Seen to fail with: a decoder that ends at it; groups of digits that count it.
func TestMeasure_FilesWithPaddingInside(t *testing.T) {
	for _, said := range []string{strings.Repeat("zqxj ", 1200), strings.Repeat("zqxj ", 12_000)} {
		digits := base64.StdEncoding.EncodeToString([]byte(said))
		for _, padded := range []string{"QUFB=" + digits, digits[:2000] + "===" + digits[2000:]} {
			m := Measure([]byte(`{"messages":[{"content":[{"type":"file","file":{"file_data":"data:;base64,` + padded + `"}}]}]}`))
			want := Weigh([]byte(said))
			if got := m.Text(); max(got-want, want-got) > 1000+want/20 {
				t.Errorf("%.20s…: %d bytes of text weigh %d, want %d", padded, len(said), got, want)
			}
		}
	}
}

// What a part or another of its files says makes no picture text.
//
// Seen to fail with: files that are all text if one of their part is.
func TestMeasure_PicturesDeclaredAsText(t *testing.T) {
	picture := `"data:image/png;base64,` + strings.Repeat("QUFB", 50) + `"`
	for _, part := range []string{
		`{"type":"image_url","image_url":{"url":` + picture + `,"media_type":"text/x"}}`,
		`{"type":"image_url","image_url":{"url":` + picture + `},"source":{"url":"data:text/a;base64,QUFB"}}`,
	} {
		m := Measure([]byte(`{"messages":[{"content":[` + part + `]}]}`))
		if m.Size[Image] != Pictures(1) {
			t.Errorf("%.60s…: pictures weigh %d", part, m.Size[Image])
		}
	}
}

// What types of media are called is short.
func TestMeasurer_ReadsNoLongTypeOfMedia(t *testing.T) {
	var m Measurer
	m.measure([]byte(`{"messages":[{"content":[{"type":"image","source":{"media_type":"\u0074ext/` + strings.Repeat("x", 100_000) + `"}}]}]}`))
	if cap(m.scratch) > 1000 {
		t.Errorf("%d bytes of it are unescaped", cap(m.scratch))
	}
}

// Of a body without files, every byte is weighed as text, once.
func TestMeasure_IsWeighWithoutFiles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		body := value(t, 0)
		got := Measure([]byte(body))
		if want := SizeOf([]byte(body)); got.Size != want {
			t.Fatalf("%s: weighs %v, want %v", body, got.Size, want)
		}
	})
}

// value is JSON as a provider's, without what is a file.
func value(t *rapid.T, depth int) string {
	key := rapid.SampledFrom([]string{"messages", "input", "content", "output", "type", "item", "response", "text", "x", `t\u0079pe`})
	kind := rapid.IntRange(0, 4)
	if depth > 4 {
		kind = rapid.IntRange(0, 2)
	}
	space := rapid.SampledFrom([]string{"", " ", "\n"}).Draw(t, "space")
	switch kind.Draw(t, "kind") {
	case 0:
		text, _ := json.Marshal(rapid.String().Draw(t, "text"))
		return string(text)
	case 1:
		return fmt.Sprint(rapid.Float64().Draw(t, "number"))
	case 2:
		return "null"
	case 3:
		var list []string
		for range rapid.IntRange(0, 3).Draw(t, "length") {
			list = append(list, space+value(t, depth+1))
		}
		return "[" + strings.Join(list, space+",") + space + "]"
	}
	var list []string
	for range rapid.IntRange(0, 3).Draw(t, "length") {
		list = append(list, space+`"`+key.Draw(t, "key")+`"`+space+":"+value(t, depth+1))
	}
	return "{" + strings.Join(list, ",") + space + "}"
}

// Seen to fail with: no weigh in Token.
func TestMeasure_WeighsShortTextsExactly(t *testing.T) {
	var body bytes.Buffer
	body.WriteString(`{"messages":[`)
	for i := range 100 {
		fmt.Fprintf(&body, `{"role":"user","content":"%s"},`, strings.Repeat("word ", 10*i)+strings.Repeat("+-*/", 5*i))
	}
	body.WriteString(`{}]}`)
	got := Measure(body.Bytes()).Size
	if want := sizeAll(body.Bytes()); got != want {
		t.Errorf("%d KB of short texts weigh %v, want %v", body.Len()>>10, got, want)
	}
}

// Whatever comes, it is weighed as a second reader weighs it.
func FuzzMeasure(f *testing.F) {
	for _, body := range measured {
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body string) {
		if !gjson.Valid(body) || strings.Count(body, "[")+strings.Count(body, "{") > 1000 || len(body) > sampled || !utf8.ValidString(body) {
			t.Skip()
		}
		checkMeasured(t, body)
		got := Measure([]byte(body))
		for k, w := range got.Size {
			if w < 0 {
				t.Errorf("%q: kind %d weighs %d", body, k, w)
			}
		}
		if len(got.Apart) == 0 && got.Text() > Weigh([]byte(body)) {
			t.Errorf("%q: its text weighs %d, more than all of it", body, got.Text())
		}
	})
}

// measured are bodies with all that Measure looks for.
var measured = []string{
	`{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,QUFB"}}]}]}`,
	`{"input":[{"type":"computer_call_output","output":{"type":"computer_screenshot","image_url":"https:\/\/a"}}],"tools":[{"type":"web_search"}]}`,
	`{"prompt":{"id":"\ud800"},"messages":[{"content":[{"type":"input_audio","input_audio":{"data":"QUFB"}}]}]}`,
	`{"input":[{"type":"input_file","file_id":"f","content":[{"type":"input_image","file_id":"\ud83d\ude00"},{"file_data":"data:a;base64,QUFB"}],"file_data":"QUFB"}]}`,
	`{"response":{"input":[{"output":[{"type":"document","source":{"type":"text","data":"QUFB","url":[{"url":"x"}]}}]}],"item":{"output":{"type":"image","result":"QUFB"}}}}`,
	`{"input":[{"type":"input_file","file_data":"data:text\/plain;base64,QUFB/w=="},{"type":"document","source":{"type":"base64","media_type":"\u0054ext/csv","data":"JVBERi0xenF4\/w"}}]}`,
	`{"input":[{"type":"input_file","file_data":"data:application/pdf;base64,JVBERi0xenF4ag=="},{"type":"file","file":{"file_data":"data:a;base64,AAECAwQF"}},{"type":"image_url","image_url":"data:text/a;base64,QUFB"}]}`,
	`{"messages":[{"content":[{"type":"file","file":{"file_data":"data:;base64,QUFB=QUFBIHpxeGo="}}]}]}`,
	`{"input":[{"type":"input_file","file_data":"data:;base64,JVBERnF"},{"type":"input_file","file_data":"JV=BERnF"},{"type":"input_file","file_data":"JVBE"}]}`,
	`{"messages":[{"content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,QUFB","media_type":"text/x","data":"QUFBIHpxeGo"}}]}]}`,
	`{"messages":[{"content":[{"type":"image","source":{"media_type":"text/x","url":"https://a"},"image_url":"data:text/a;base64,QUFB"}]}]}`,
	`{"tools":[{"type":"function","type":"x"},{"type":7},[{"type":"x"}],"x"],"mcp_servers":[{}],"plugins":{},"web_search_options":{},"extra_body":{"prompt":{}}}`,
	`{"Messages":[{"\u0063ontent":[{"TYPE":"Image","ſource":{"DATA":"QUFB"},"İmage_url":"x","image_url":["QUFB"]}]}]}`,
	`{"messages":{"content":[]},"input":"data:image/png;base64,QUFB","item":[{"type":"image","file":"data:image/png;base64,QUFB\/"}]}`,
	` [ {"messages":[]} , 1 , "x" ] `, `"x"`, `1`, `{}`, ` `, `{"item":{"content":{"type":"image"},"type":"image","type":"image","image_url":"https://a"}}`,
}

// checkMeasured compares Measure with the second reader.
func checkMeasured(t interface{ Fatalf(string, ...any) }, body string) {
	got := Measure([]byte(body))
	want := measureAgain([]byte(body))
	if got.Size != want.Size || got.Unseen != want.Unseen || !slices.Equal(got.Files, want.Files) {
		t.Fatalf("%q\n got %+v\nwant %+v", body, got, want)
	}
}

// A body is weighed from its tokens as it is by recursion.
func TestMeasure_AgreesWithASecondReader(t *testing.T) {
	for _, body := range measured {
		checkMeasured(t, body)
	}
	rapid.Check(t, func(t *rapid.T) { checkMeasured(t, anyValue(t, 0)) })
}

// anyValue is JSON with files and tools at all places, and at places that look alike.
func anyValue(t *rapid.T, depth int) string {
	keys := []string{
		"messages", "input", "content", "output", "type", "item", "response", "tools", "prompt", "plugins", "image_url", "file", "source", "url", "data",
		"file_data", "file_url", "file_id", "result", "media_type", "x", "type", `t\u0079pe`, "Content", "extra_body",
	}
	texts := []string{`"image"`, `"text"`, `"image_url"`, `"file"`, `"function"`, `"web_search"`, `"input_audio"`, `"QUFB"`, `"data:image/png;base64,QUFB"`, `"data:Text/csv;base64,JVBERi0x"`, `"https://a/b"`, `"a b"`, `"F\u0069le"`, "null", "17"}
	kind := rapid.IntRange(0, 5).Draw(t, "kind")
	if depth > 6 || depth > 0 && kind == 0 {
		return rapid.SampledFrom(texts).Draw(t, "text")
	}
	n := rapid.IntRange(0, 4).Draw(t, "length")
	var list []string
	for range n {
		value := anyValue(t, depth+1)
		if kind > 2 || depth == 0 {
			value = `"` + rapid.SampledFrom(keys).Draw(t, "key") + `": ` + value
		}
		list = append(list, value)
	}
	if kind > 2 || depth == 0 {
		return "{" + strings.Join(list, ",") + "}"
	}
	return "[" + strings.Join(list, ",") + "]"
}

// Weighing a body allocates nothing, once there is memory to do it in, but the list of its files.
func TestMeasurer_DoesNotAllocate(t *testing.T) {
	var m Measurer
	for _, body := range append(slices.Clone(measured), `{"messages":[{"role":"user","content":"`+strings.Repeat(`Some \"prose\", `, 9000)+`"}]}`) {
		if strings.Contains(body, "file_id") { // an id is kept
			continue
		}
		text := []byte(body)
		n := testkit.Allocs(t, 10, func() {
			m.Reset(text)
			s := jsonscan.New(text)
			for token := s.Next(); token.Kind > jsonscan.Invalid; token = s.Next() {
				m.Token(token)
			}
			m.Body()
		})
		if want := uint64(min(1, len(Measure(text).Apart))); n > want {
			t.Errorf("%.100q: %d allocations, want %d", body, n, want)
		}
	}
}

// Strings that are all escapes, or all quotes, are read once.
func TestMeasure_IsLinear(t *testing.T) {
	for _, unit := range []string{`\"`, `\\`, `\u0022`, `a\n`} {
		body := []byte(`{"input":"` + strings.Repeat(unit, 1<<20) + `"}`)
		got := Measure(body).Text()
		want := sizeAll(body).Text()
		if off := max(got-want, want-got); off*100 > want { // so long a text is weighed by samples
			t.Errorf("%s: weighs %d, want %d", unit, got, want)
		}
	}
}

// measureAgain is Measure as a second reader: it walks the body by recursion, unescapes with encoding/json,
// and weighs every byte of every text.
func measureAgain(body []byte) Body {
	s := reread{body: body}
	s.value(inTop, nil)
	s.weigh(s.body[s.at:])
	return s.out
}

// sizeAll weighs every byte.
func sizeAll(text []byte) (all Size) {
	for _, b := range text {
		c := classOf(b)
		all[c] += weights[c].likely
	}
	return all
}

// weigh takes a text in.
func (s *reread) weigh(text []byte) { s.out.Size = s.out.Size.Plus(sizeAll(text)) }

// reread is a body that is being measured.
type reread struct {
	body []byte
	at   int
	out  Body
}

// readPart is an object that may say what it is.
type readPart struct {
	kind  Kind // of the files in it
	types int
	tool  bool     // it says that the provider runs it
	plain bool     // its file is text
	text  bool     // it says that its files are text
	files [][]byte // strings in base64, which are not weighed yet
	links int64    // addresses
	ids   []string
}

// value measures the value that comes next. of is the part that it belongs to, if it does.
func (s *reread) value(in place, of *readPart) {
	switch s.to() {
	case '{':
		s.object(in, of)
	case '[':
		s.array(in)
	case '"':
		s.text()
	default: // a number, true, false or null
		s.skip()
		for s.at < len(s.body) && !ends[s.body[s.at]] {
			s.skip()
		}
	}
}

// ends are the bytes that end a number or a word.
var ends = [256]bool{',': true, ']': true, '}': true, ' ': true, '\t': true, '\r': true, '\n': true}

// to weighs what stands before the next value, key or bracket, and returns its first byte.
func (s *reread) to() byte {
	for s.at < len(s.body) {
		switch b := s.body[s.at]; b {
		case ' ', '\t', '\r', '\n', ',', ':':
			s.skip()
		default:
			return b
		}
	}
	return 0
}

// skip weighs the next byte as text.
func (s *reread) skip() {
	if s.at < len(s.body) {
		s.weigh(s.body[s.at : s.at+1])
		s.at++
	}
}

// text weighs a string, and returns it with its quotes.
func (s *reread) text() []byte {
	text := s.body[s.at:]
	text = text[:stringLength(text)]
	s.weigh(text)
	s.at += len(text)
	return text
}

// stringLength is the length of the string that text begins with, quotes included.
func stringLength(text []byte) int {
	quote := 0
	for i := 1; i < len(text); {
		if quote < i { // else it was found before, and nothing is searched twice
			n := bytes.IndexByte(text[i:], '"')
			if n < 0 {
				break
			}
			quote = i + n
		}
		slash := bytes.IndexByte(text[i:quote], '\\')
		if slash < 0 {
			return quote + 1
		}
		i += slash + 2
	}
	return len(text)
}

func (s *reread) array(in place) {
	element := nowhere
	switch in {
	case inList:
		element = inItem
	case inTools:
		element = inTool
	}
	s.skip()
	for {
		switch s.to() {
		case ']', '}', 0:
			s.skip()
			return
		}
		s.value(element, nil)
	}
}

// object measures an object. of is the part that it belongs to, if it is in inFile.
func (s *reread) object(in place, of *readPart) {
	own := readPart{}
	p := &own
	if in == inFile {
		p = of
	}
	s.skip()
	for {
		switch s.to() {
		case '"':
		case '}', ']', 0:
			s.skip()
			s.close(in, &own)
			return
		default: // not JSON
			s.skip()
			continue
		}
		key := s.text()
		first := s.to()
		if in == nowhere || in == inList || in == inTools {
			s.value(nowhere, nil)
			continue
		}
		s.member(in, plain(key), first, p)
	}
}

// member measures the value of a key.
func (s *reread) member(in place, key []byte, first byte, p *readPart) {
	switch in {
	case inTop:
		s.topMember(key, first)
	case inTool:
		if string(key) == "type" && first == '"' {
			p.types++
			p.tool = !ownTools[string(plain(s.text()))]
			return
		}
		if string(key) == "tools" {
			s.value(inTools, nil)
			return
		}
		s.value(nowhere, nil)
	case inItem:
		s.itemMember(key, first, p)
	default:
		s.fileMember(key, first, p)
	}
}

// topMember measures a member of the body.
func (s *reread) topMember(key []byte, first byte) {
	switch string(key) {
	case "messages", "input":
		s.value(inList, nil)
	case "item":
		s.value(inItem, nil)
	case "response", "extra_body": // some servers read the latter as if it were the body
		s.value(inTop, nil)
	case "tools":
		s.value(inTools, nil)
	case "prompt", "web_search_options": // an object is a stored prompt
		if first == '{' {
			s.out.Unseen++
		}
		s.value(nowhere, nil)
	case "mcp_servers", "plugins":
		if first == '[' {
			s.out.Unseen++
		}
		s.value(nowhere, nil)
	default:
		s.value(nowhere, nil)
	}
}

// itemMember measures a member of a message, an item or a part.
func (s *reread) itemMember(key []byte, first byte, p *readPart) {
	switch string(key) {
	case "type":
		if first != '"' {
			s.value(nowhere, nil)
			return
		}
		p.types++
		p.kind = kindOf[string(plain(s.text()))]
	case "content":
		s.value(inList, nil)
	case "output":
		if first == '{' {
			s.value(inItem, nil)
			return
		}
		s.value(inList, nil)
	case "image_url", "video_url", "audio_url", "input_audio", "file", "source":
		if first == '"' {
			s.file(key, p)
			return
		}
		s.value(inFile, p)
	case "file_url", "file_data", "file_id", "result":
		s.fileMember(key, first, p)
	default:
		s.value(nowhere, nil)
	}
}

// fileMember measures a member that may be a file: its content, its address or its id.
func (s *reread) fileMember(key []byte, first byte, p *readPart) {
	if first != '"' {
		s.value(nowhere, nil)
		return
	}
	switch string(key) {
	case "url", "file_url", "file_data", "data", "result", "image_url":
		s.file(key, p)
	case "file_id":
		p.ids = append(p.ids, unescaped(s.text()))
	case "type":
		p.plain = string(plain(s.text())) == "text" || p.plain
	case "media_type":
		media := s.text()
		p.text = len(media) <= longestName && strings.HasPrefix(string(plain(media)), "text/") || p.text
	default:
		s.value(nowhere, nil)
	}
}

// file notes a string that is a file or its address. A file is not weighed before it is known what
// of.
func (s *reread) file(key []byte, p *readPart) {
	raw := s.body[s.at:]
	raw = raw[:stringLength(raw)]
	s.at += len(raw)
	encoded := false
	switch string(key) {
	case "data", "result":
		encoded = isBase64(inside(raw))
	case "file_data":
		encoded = isBase64(dataOf(inside(raw)))
	default:
		encoded = isBase64(dataOf(inside(raw)))
		if !encoded {
			p.links++
		}
	}
	if encoded {
		p.files = append(p.files, raw)
	} else {
		s.weigh(raw)
	}
}

// close takes an object's files into account once everything is known of it.
func (s *reread) close(in place, p *readPart) {
	switch {
	case in == inTool && (p.tool || p.types > 1): // of two types servers read different ones
		s.out.Unseen++
	case in == inItem && p.types == 1 && !p.plain:
		s.closePart(p, p.kind)
	case in == inItem:
		s.closePart(p, Text)
	}
}

// closePart does so for a part of that kind.
func (s *reread) closePart(p *readPart, kind Kind) {
	size := &s.out.Size
	for _, raw := range p.files {
		declared := p.text
		if dataOf(inside(raw)) != nil {
			declared = strings.HasPrefix(string(plain(raw)), "data:text/")
		}
		of := kind
		if declared && kind != Text {
			of = Document
		}
		switch of {
		case Image:
			size[Image] += Pictures(1)
		case Sound:
			size[Sound] += SoundOf(int64(len(raw)) / 4 * 3)
		case Document:
			_, digits, _ := strings.Cut(unescaped(raw), ";base64,")
			said, _ := base64.RawStdEncoding.DecodeString(strings.ReplaceAll(cmp.Or(digits, unescaped(raw)), "=", ""))
			if len(said) == 0 || !declared && (bytes.HasPrefix(said, []byte("%PDF")) || !mostlyText(said)) {
				size[Document] += sizeAll(raw).Text()
				continue
			}
			s.weigh(said)
		default:
			s.weigh(raw)
		}
	}
	if kind == Image && !p.text {
		size[Image] += Pictures(p.links)
	} else {
		s.out.Unseen += p.links
		kind = Document
	}
	for _, id := range p.ids {
		s.out.Files = append(s.out.Files, File{id, kind})
	}
}

// mostlyText reports whether there is hardly anything but characters in what a file says.
func mostlyText(said []byte) bool {
	text := strings.Map(func(r rune) rune {
		if r == utf8.RuneError || unicode.IsControl(r) && !strings.ContainsRune("\t\n\f\r", r) && r < 0x7f {
			return -1
		}
		return r
	}, string(said))
	return len(said)-len(text) <= len(said)/8
}

// plain is a key or a type as any server may read it: without escapes, and in lower case.
func plain(raw []byte) []byte {
	text := inside(raw)
	for _, b := range text {
		if b == '\\' || b >= 0x80 || 'A' <= b && b <= 'Z' {
			return []byte(folds.Replace(strings.ToLower(unescaped(raw))))
		}
	}
	return text
}

// folds are the letters beyond ASCII that servers which ignore case take for others.
var folds = strings.NewReplacer("ſ", "s", "\u212a", "k")

// unescaped is what a JSON string says.
func unescaped(raw []byte) (text string) {
	_ = json.Unmarshal(raw, &text) // all of a body that is well formed can be read
	return text
}

// inside is a string without its quotes.
func inside(raw []byte) []byte {
	if len(raw) < 2 {
		return nil
	}
	return raw[1 : len(raw)-1]
}

// isBase64 is jsonscan.IsBase64, byte by byte.
func isBase64(text []byte) bool {
	for i, b := range text {
		isDigit := 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z' || '0' <= b && b <= '9' || b == '+' || b == '/' || b == '='
		if !isDigit && (b != '\\' || i+1 == len(text) || text[i+1] != '/') {
			return false
		}
	}
	return len(text) > 0
}
