package stored

import (
	"log/slog"
	"testing"

	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/proxy/objects"
	"github.com/llmgov/llmgov/internal/run/admission"
	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/tenants"
)

// A response of which a call never told the usage has what is believed of it, unless it was told meanwhile to a caller who asked for it.
//
// Seen to fail with: a size that is believed whatever was told.
func TestLedger_Unreported(t *testing.T) {
	for name, tt := range map[string]struct{ told, want int64 }{
		"told nobody":   {0, 900 + 50},
		"told a caller": {40, 40},
	} {
		store := testkit.Must(objects.Open("", slog.New(slog.DiscardHandler)))(t)
		call := &admission.Call{Request: governor.Request{Input: 100, Output: 50}}
		call.Tenant = &tenants.Tenant{Name: "acme"}
		l := Ledger{Call: call, Store: store}
		l.Record("up", []Object{{Kind: objects.Response, ID: "resp_1"}}, false)
		key := objects.Key{Upstream: "up", ID: "resp_1"}
		if tt.told > 0 {
			store.Resize(key, tt.told)
		}
		l.Unreported(governor.Usage{Input: 900, Output: 7})
		if e, _ := store.Owner(key); e.Size != tt.want {
			t.Errorf("%s: it has %d tokens, want %d", name, e.Size, tt.want)
		}
	}
}
