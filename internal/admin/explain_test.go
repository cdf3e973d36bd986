package admin

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llmgov/llmgov/internal/adminapi"
	"github.com/llmgov/llmgov/internal/testkit"
)

// A question is the same after its way through a query.
func TestQuestion_Values(t *testing.T) {
	n := int64(12)
	m := int64(0)
	d := 1500 * time.Millisecond
	for _, q := range []*adminapi.Question{
		{Tenant: "a/b", Model: "x&y=z"},
		{Tenant: "a", Model: "m", Tokens: &n, Input: &m, Priority: "background", MaxWait: &d},
		{Tenant: "a", Model: "m", Output: &n},
	} {
		got := testkit.Must(readQuestion(q.Values()))(t)
		if diff := cmp.Diff(q, got); diff != "" {
			t.Errorf("(-asked +read):\n%s", diff)
		}
	}
}
