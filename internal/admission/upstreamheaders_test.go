package admission

import (
	"fmt"
	"testing"

	"github.com/llmgov/llmgov/tenants"
)

// Values of placeholders are put in once: the id of a request cannot bring in others.
func TestUpstreamHeaders(t *testing.T) {
	pool := &tenants.Pool{Headers: []tenants.Header{
		{Name: "X-Llm-D-Inference-Fairness-Id", Value: "{tenant}"},
		{Name: "X-Llm-D-Inference-Objective", Value: "{tier}-{priority}"},
		{Name: "X-Trace", Value: "llmgov/{request_id}"},
	}}
	c := &Call{ID: "{tenant}"}
	c.Pool = &Pool{Pool: pool}
	c.Tenant = &tenants.Tenant{Name: "acme/search", Tier: "pro"}
	for _, background := range []bool{false, true} {
		c.Ask.Background = background
		got := ""
		c.UpstreamHeaders(func(name, value string) { got += fmt.Sprintln(name, value) })
		priority := map[bool]string{false: "interactive", true: "background"}[background]
		want := "X-Llm-D-Inference-Fairness-Id acme/search\nX-Llm-D-Inference-Objective pro-" + priority + "\nX-Trace llmgov/{tenant}\n"
		if got != want {
			t.Errorf("set %q, not %q", got, want)
		}
	}
}
