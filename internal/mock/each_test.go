package mock

import (
	"strings"
	"testing"

	"github.com/tidwall/gjson"
)

// Where each chunk tells what was used so far, the last one tells it all.
func TestUsage_Each(t *testing.T) {
	r := onSocket(t, Config{Usage: UsageEach})
	for path, body := range map[string]string{
		"/v1/chat/completions": chatBody(`"stream":true,"max_tokens":3`),
		"/v1/completions":      `{"model":"m","prompt":"a","stream":true,"max_tokens":3}`,
		"/v1/messages":         `{"model":"m","messages":[{"role":"user","content":"12345"}],"stream":true,"max_tokens":3}`,
	} {
		var told []string
		for _, e := range events(r.post(path, body).body) {
			told = append(told, gjson.Get(e.data, "usage.completion_tokens").Raw, gjson.Get(e.data, "usage.output_tokens").Raw)
		}
		if got := strings.Join(strings.Fields(strings.Join(told, " ")), " "); got != "1 2 3 3" {
			t.Errorf("%s tells %s", path, got)
		}
	}
}
