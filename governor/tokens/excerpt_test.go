package tokens

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/llmgov/llmgov/internal/lib/jsonscan"
	"github.com/llmgov/llmgov/internal/test/testkit"
)

// Wherever a part of a body begins and ends, and whichever way its characters are written, it says a part of what the body says.
//
// Seen to fail with: parts that begin and end anywhere; no care for halves of pairs.
func TestExcerpt_CutsNoCharacter(t *testing.T) {
	numbers := func(format string) func(string) string {
		return func(text string) (escaped string) {
			for _, unit := range utf16.Encode([]rune(text)) {
				escaped += fmt.Sprintf(format, unit)
			}
			return escaped
		}
	}
	plain := func(text string) string {
		quoted := testkit.Must(json.Marshal(text))(t)
		return string(quoted[1 : len(quoted)-1])
	}
	for name, write := range map[string]func(string) string{
		"plain": plain, "numbers": numbers(`\u%04x`), "capitals": numbers(`\u%04X`),
		"mixed": func(text string) string { return plain(text) + numbers(`\u%04x`)(text) + "u12" + plain(text) },
	} {
		for _, text := range []string{"zqxj", "世界", "مرحبا ", "👩‍👩‍👧‍👦 ", "\t\"a\"\n\\u4e2d", `a\`, "\\\\\"", "𒀀1", "\x01\x02 u0000"} {
			body := []byte(`{"messages":[{"content":"` + write(strings.Repeat(text, 60)) + `"}]}`)
			whole := string(Excerpt(`"` + string(body) + `"`).Said())
			for from := range len(body) - partSize {
				x := append(appendPart(Excerpt(`"`), body, from, from+partSize), '"')
				said := string(x.Said())
				if !utf8.ValidString(said) || !strings.Contains(whole, said) || said == "" || len(x) > partSize+2*longestEscape+40 {
					t.Fatalf("%s, %q: from %d on it says %q in %d bytes", name, text, from, said, len(x))
				}
			}
		}
	}
	if x := append(appendPart(Excerpt(`"`), []byte(strings.Repeat(`\`, 1000)), 300, 400), '"'); len(x) != 2 {
		t.Errorf("of nothing but backslashes %q is taken", x)
	}
}

// An excerpt is a small body as a whole, parts of a larger one, and of what is text in it.
func TestExcerptOf(t *testing.T) {
	picture := strings.Repeat("QUFB", 3000)
	letters := strings.Repeat("zqxj?>?>", 1000)
	coded := base64.StdEncoding.EncodeToString([]byte(letters))
	part := `{"type":"input_image","image_url":"data:image/png;base64,` + picture + `"}`
	for _, tt := range []struct {
		name, body  string
		least, most int
		without     string
	}{
		{"short", `{"input":"hi"}`, 14, 14, ""},
		{"long", `{"input":"` + strings.Repeat("so many words ", 1000) + `"}`, 480, 700, ""},
		{"beside a picture", `{"input":[{"content":[` + part + `,{"type":"input_text","text":"` + strings.Repeat("b c ", 1000) + `"},` + part + `]}]}`, 480, 700, "QUFB"},
		{"a picture in a part of it", `{"input":[{"content":[{"type":"input_image","content":[` + part + `],"image_url":"data:image/png;base64,` + picture + `"}]}]}`, 100, 250, "QUFB"},
		{"many pictures", `{"input":[{"content":[` + strings.Repeat(part+`,{"type":"input_text","text":"b c"},`, 40) + part + `]}]}`, 400, 900, "QUFB"},
		{"a link to a picture", `{"input":[{"content":[{"type":"input_image","image_url":"https://example.com/1"},{"type":"input_text","text":"` + strings.Repeat("b c ", 1000) + `"}]}]}`, 480, 700, ""},
		{"a document of text", `{"input":[{"content":[{"type":"input_file","file_data":"data:application/json;base64,` + coded + `"}]}]}`, 300, 700, coded[:8]},
		{"an escaped document of text", `{"messages":[{"content":[{"type":"document","source":{"type":"base64","media_type":"text/plain","data":"` + strings.ReplaceAll(coded, "/", `\/`) + `"}}]}]}`, 300, 700, coded[:8]},
		{"a document that is text", `{"messages":[{"content":[{"type":"document","source":{"data":"` + picture + `","type":"text"}}]}]}`, 480, 700, ""},
		{"what only looks like a picture", `{"input":[{"content":[{"type":"input_text","image_url":"data:image/png;base64,` + picture + `"},` + part + `]}]}`, 480, 700, ""},
	} {
		for range 20 {
			x := ExcerptOf([]byte(tt.body), Measure([]byte(tt.body)).Apart)
			said := string(x.Said())
			if n := len(x) - 2; n < tt.least || n > tt.most || tt.without != "" && strings.Contains(said, tt.without) {
				t.Errorf("%s: %d bytes: %s", tt.name, n, said)
			}
			if strings.Contains(tt.name, "document of text") && strings.Count(said, "zqxj?>?>") < 30 {
				t.Errorf("%s: %s", tt.name, said)
			}
		}
	}
}

// An excerpt of texts that are not in JSON says parts of them, whatever these look like in JSON.
func TestExcerptOfTexts(t *testing.T) {
	for _, text := range []string{"zqxj", "世界 ", `\u12 \" "`, `\\`, "👩‍👩‍👧‍👦"} {
		short := [][]byte{[]byte(text), nil, []byte("end")}
		if said := string(ExcerptOfTexts(short).Said()); said != text+"end" {
			t.Errorf("of %q it says %q", text, said)
		}
		long := strings.Repeat(text, 1000)
		for range 20 {
			said := string(ExcerptOfTexts([][]byte{[]byte(long), []byte(long)}).Said())
			if n := len(said); n < excerptParts*partSize-4*utf8.UTFMax || n > excerptParts*(partSize+utf8.UTFMax) || !utf8.ValidString(said) {
				t.Errorf("of many %q it says %q in %d bytes", text, said, n)
			}
		}
	}
	ExcerptOfTexts([][]byte{[]byte(strings.Repeat("\x80", 2000))}).Said()
}

func FuzzExcerpt(f *testing.F) {
	f.Add([]byte(`{"a":"\ud83d\ude00\\"}`), 3, 9)
	f.Fuzz(func(t *testing.T, body []byte, from, to int) {
		s := jsonscan.New(body)
		for k := s.Next(); k.Kind != jsonscan.End; k = s.Next() {
			if k.Kind == jsonscan.Invalid {
				return
			}
		}
		if from >= 0 && from <= to && to <= len(body) {
			x := append(appendPart(Excerpt(`"`), body, from, to), '"')
			x.Said()
		}
		ExcerptOf(body, Measure(body).Apart).Said()
	})
}
