package head

import (
	"strings"
	"testing"
)

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
