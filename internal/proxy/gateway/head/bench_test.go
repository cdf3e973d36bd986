package head

import (
	"strings"
	"testing"
)

// question is the chat request of 0.4 KB of internal/lab/bench.
const question = `{"model":"gpt-4o-mini","temperature":0.7,"max_tokens":100,"stream":false,"user":"u-1","messages":[` +
	`{"role":"system","content":"You are helpful."},{"role":"user","content":"How long is a piece of string, and does it depend on where I cut it? ` +
	`Please answer in a few words, because the answer is read aloud, and give no sources. Do not ask me back."}],"mock":{"output_tokens":20}}`

func BenchmarkReadQuestion(b *testing.B) {
	body := []byte(question)
	b.ReportAllocs()
	b.SetBytes(int64(len(body)))
	var r Reader
	var h Head
	for b.Loop() {
		h = Head{}
		if err := r.Read(&h, body); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkReadHead(b *testing.B) {
	for name, content := range map[string]string{
		"question":          `"How long is a piece of string?"`,
		"5kB":               `"` + strings.Repeat("The quick brown fox jumps over the lazy dog. ", 110) + `"`,
		"100kB":             `"` + strings.Repeat("The quick brown fox jumps over the lazy dog. ", 2200) + `"`,
		"400kB of Markdown": `"` + strings.Repeat(`- **fox**: \"The quick brown fox jumps over the lazy dog.\"\n`, 6700) + `"`,
		"image":             `[{"type":"image_url","image_url":{"url":"data:image/png;base64,` + strings.Repeat("QUFB", 1<<18) + `"}}]`,
	} {
		body := []byte(`{"model":"gpt-4o","messages":[{"role":"system","content":"Be brief."},{"role":"user","content":` + content + `}],"max_tokens":100,"stream":true}`)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(body)))
			var r Reader
			for b.Loop() {
				if err := r.Read(&Head{}, body); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
