package bpe

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/llmgov/llmgov/internal/testkit"
)

// However the texts of a prompt lie beside each other, no more is counted than may.
//
// Catches: a sample taken by the number of pieces, that hits all the long ones; calls of
// the vocabulary for thousands of texts of one letter.
func TestWorkIsBoundedOverManyTexts(t *testing.T) {
	for name, text := range map[string]func(i int) string{
		"a long one behind twelve short": func(i int) string {
			if i%12 == 11 {
				return strings.Repeat("a", pieceSize)
			}
			return "b"
		},
		"of one letter":      func(int) string { return "a" },
		"just above a piece": func(int) string { return strings.Repeat("a", pieceSize+1) },
	} {
		c, v := taped()
		texts := []string{}
		for i, size := 0, 0; size < maxBody-10_000; i++ {
			texts = append(texts, text(i))
			size += len(text(i)) + 3
		}
		body := testkit.Must(json.Marshal(map[string]any{"input": texts}))(t)
		if _, ok := c.Count("gpt-4o-embedding", body, 0); ok && (v.bytes > 2*maxCounted || v.calls > maxLooks) {
			t.Errorf("%s: %d bytes were counted, in %d pieces", name, v.bytes, v.calls)
		}
	}
}

// What has no rule here is not taken for nothing: the estimate is better than a count
// that leaves it out.
func TestNothingIsLeftOut(t *testing.T) {
	c := loaded()
	long := strings.Repeat("so many words ", 2000)
	for name, body := range map[string]string{
		"function_call of old":   `{"messages":[{"role":"assistant","content":null,"function_call":{"name":"f","arguments":"` + long + `"}}]}`,
		"a custom tool's call":   `{"messages":[{"role":"assistant","tool_calls":[{"id":"c","type":"custom","custom":{"name":"f","input":"` + long + `"}}]}]}`,
		"refusal":                `{"messages":[{"role":"assistant","refusal":"` + long + `"}]}`,
		"reasoning":              `{"messages":[{"role":"assistant","content":"a","reasoning_content":"` + long + `"}]}`,
		"alternatives of schema": `{"messages":[],"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object","anyOf":[{"description":"` + long + `"}]}}}]}`,
		"a property's pattern":   `{"messages":[],"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{"a":{"type":"string","examples":["` + long + `"]}}}}}]}`,
		"a prediction":           `{"messages":[],"prediction":{"type":"content","content":"` + long + `"}}`,
		"unknown, in parts":      `{"messages":[{` + strings.TrimSuffix(strings.Repeat(`"note":"so many words so many words so many words",`, 600), ",") + `}]}`,
		"unknown":                `{"messages":[],"documents":[{"text":"` + long + `"}]}`,
	} {
		if n, ok := c.Count("gpt-4o", []byte(body), 0); ok && n < 5000 {
			t.Errorf("%s: some 6000 tokens are counted as %d", name, n)
		}
	}
}

// A schema is read once a level, so its levels are few.
func TestDeepSchemasAreNotKnown(t *testing.T) {
	c, _ := taped()
	for depth, known := range map[int]bool{1: true, maxNesting: true, maxNesting + 1: false, 300: false} {
		for _, level := range [][2]string{{`{"properties":{"a":`, `}}`}, {`{"items":`, `}`}} {
			body := `{"input":"a","tools":[{"type":"function","name":"f","parameters":` +
				strings.Repeat(level[0], depth) + `{}` + strings.Repeat(level[1], depth) + `}]}`
			if _, ok := c.Count("gpt-4o", []byte(body), 0); ok != known {
				t.Errorf("%d levels of %s: known %v, want %v", depth, level[0], ok, known)
			}
		}
	}
}

// Whatever a body is made of, it is soon clear what it says, or that this is not known. One
// that says much costs no more than others do (see also BenchmarkCount).
func BenchmarkHostile(b *testing.B) {
	c := loaded()
	fill := func(one string) string {
		return `[` + strings.TrimSuffix(strings.Repeat(one+",", (maxBody-1000)/(len(one)+1)), ",") + `]`
	}
	schema := func(open, middle, close string, depth int) string {
		return `{"tools":[{"type":"function","function":{"name":"f","parameters":` + strings.Repeat(open, depth) + middle + strings.Repeat(close, depth) + `}}]}`
	}
	long := `{"description":"` + strings.Repeat(" ", 200_000) + `"}`
	for _, tt := range []struct{ name, model, body string }{
		{"deep schema", "gpt-4o", schema(`{"properties":{"a":`, long, `}}`, 400)},
		{"schema of eight levels", "gpt-4o", schema(`{"properties":{"a":`, long, `}}`, maxNesting-1)},
		{"texts of a letter", "gpt-4o-embedding", `{"input":` + fill(`"a"`) + `}`},
		{"2000 texts of a letter", "gpt-4o-embedding", `{"input":[` + strings.Repeat(`"a",`, 2000) + `"a"]}`},
		{"empty messages", "gpt-4o", `{"messages":` + fill(`{}`) + `}`},
		{"empty parts", "gpt-4o", `{"messages":[{"content":` + fill(`{"type":"text","text":""}`) + `}]}`},
		{"tokens", "gpt-4o-embedding", `{"input":` + fill(`1`) + `}`},
		{"empty lists", "gpt-4o-embedding", `{"input":` + fill(`[]`) + `}`},
	} {
		b.Run(tt.name, func(b *testing.B) {
			for b.Loop() {
				c.Count(tt.model, []byte(tt.body), 0)
			}
		})
	}
}
