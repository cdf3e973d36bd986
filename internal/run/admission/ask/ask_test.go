package ask

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/llmgov/llmgov/governor/tokens"
)

// Files are found in a body of which only the size was told, also those that are text, and so no size of their own.
//
// Seen to fail with: none looked for where all is text.
func TestFindFiles(t *testing.T) {
	said := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("some words ", 200)))
	picture := `{"type":"input_image","image_url":"data:image/png;base64,QUFB"}`
	text := `{"type":"document","source":{"type":"base64","media_type":"text/plain","data":"` + said + `"}}`
	for parts, want := range map[string]int{`{"type":"input_text","text":"hi"}`: 0, picture: 1, text: 1, picture + "," + text: 2} {
		body := []byte(`{"input":[{"content":[` + parts + `]}]}`)
		p := Prompt{Own: tokens.Measure(body).Size, Body: body}
		p.FindFiles()
		if len(p.Apart) != want {
			t.Errorf("%.60s…: found %v", parts, p.Apart)
		}
	}
}
