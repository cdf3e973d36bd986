package objects

import (
	"net/http"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/llmgov/llmgov/internal/e2e/harness"
)

// The calls of a batch have the bounds that they would have if they came one by one.
func TestAudit_M6_BatchLines(t *testing.T) {
	s := newGrantedStack(t)
	line := func(url, body string) string {
		return `{"custom_id":"1","method":"POST","url":"/v1` + url + `","body":{"model":"gpt-4o"` + body + `}}`
	}
	send := func(lines ...string) (int, string) {
		return s.SendAs("acme", http.MethodPost, "/v1/files", formType, harness.BatchForm(lines...))
	}
	for _, tt := range []struct {
		url, body, want string
	}{
		{"/chat/completions", `,"max_tokens":5000,"n":100`, `{"model":"gpt-4o","max_tokens":100,"n":100}`},
		{"/chat/completions", `,"max_completion_tokens":7`, `{"model":"gpt-4o","max_completion_tokens":7}`},
		{"/chat/completions", ``, `{"max_completion_tokens":100,"model":"gpt-4o"}`},
		{"/responses", `,"max_output_tokens":null`, `{"model":"gpt-4o","max_output_tokens":100}`},
		{"/embeddings", `,"input":"x"`, `{"model":"gpt-4o","input":"x"}`},
	} {
		// Beside another line, and with blanks around it, which stay.
		status, text := send(line("/embeddings", ""), "", " \t"+line(tt.url, tt.body)+" \r", line("/completions", ""))
		if status != http.StatusOK {
			t.Errorf("%s: %d %s", tt.body, status, text)
			continue
		}
		_, kept := s.SendAs("acme", http.MethodGet, "/v1/files/"+gjson.Get(text, "id").Str+"/content", "", "")
		lines := strings.Split(kept, "\n")
		if want := " \t" + strings.Replace(line(tt.url, tt.body), `{"model":"gpt-4o"`+tt.body+`}`, tt.want, 1) + " \r"; len(lines) != 4 || lines[2] != want {
			t.Errorf("the upstream keeps\n%q, want as its third line\n%q", kept, want)
		}
		if want := line("/completions", ""); len(lines) == 4 && lines[3] != strings.Replace(want, `"body":{`, `"body":{"max_tokens":100,`, 1) {
			t.Errorf("the last line is %q", lines[3])
		}
	}
	for _, bad := range []string{
		line("/chat/completions", `,"n":5000`),
		line("/chat/completions", `,"max_tokens":1,"max_tokens":5000`),
		line("/chat/completions", `,"Max_Tokens":5000`),
		line("/chat/completions", `,"extra_body":{"max_tokens":5000}`),
		line("/chat/completions", `,"tools":[{"type":"image_generation"}]`),
		strings.Replace(line("/chat/completions", ``), `"url":"/v1/chat/completions",`, "", 1),
		strings.Replace(line("/chat/completions", ``), `"body"`, `"body":{"model":"gpt-4o"},"body"`, 1),
		strings.Replace(line("/chat/completions", ``), `"body"`, `"Body"`, 1),
		strings.Replace(line("/chat/completions", ``), `"url"`, `"url":"/v1/embeddings","url"`, 1),
		`[` + line("/chat/completions", ``) + `]`,
	} {
		before := s.Seen.Count()
		if status, text := send(line("/embeddings", ""), bad); status != http.StatusBadRequest || !strings.Contains(text, "Line 2: ") || s.Seen.Count() != before {
			t.Errorf("%s: %d %s", bad, status, text)
		}
	}
}
