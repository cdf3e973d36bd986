package operations

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgov/llmgov/internal/admin"
	"github.com/llmgov/llmgov/internal/adminapi"
	"github.com/llmgov/llmgov/internal/e2e/harness"
	"github.com/llmgov/llmgov/tenants"
)

// Accounts of limits that the store cannot read leave the gateway ready, but do not go unnoticed: /readyz counts them for whoever asks, and
// names none, and the snapshot has a condition that names them and says what to do.
func TestUnreadableAccountsAreShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := harness.New(t, harness.World{Pool: harness.Pool(0, 0, 10), Tenants: []tenants.Tenant{harness.Tenant("acme", 1)}})
		defer s.Close()
		var list []adminapi.Unreadable
		api := s.AdminAPI(admin.Options{Unreadable: func() []adminapi.Unreadable { return list }})
		get := func(path string) (int, string) {
			w := httptest.NewRecorder()
			api.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://localhost"+path, nil))
			return w.Code, w.Body.String()
		}
		if status, body := get("/readyz"); status != http.StatusOK || body != "ok\n" {
			t.Errorf("all is well, and /readyz says %d %s", status, body)
		}
		list = []adminapi.Unreadable{{Owner: "acme in p", Since: time.Now(), Error: "damaged; DEL 'llmgov:parts:{acme} in p'"}}
		status, body := get("/readyz")
		if status != http.StatusOK || !strings.HasPrefix(body, "ok\n") || !strings.Contains(body, "cannot read") || !strings.Contains(body, ": 1;") || strings.Contains(body, "acme") {
			t.Errorf("/readyz says %d %s", status, body)
		}
		if _, body := get("/api/v1/snapshot"); !strings.Contains(body, `"store_unreadable"`) || !strings.Contains(body, "acme in p") || !strings.Contains(body, "DEL 'llmgov:parts") {
			t.Errorf("the snapshot says %s", body)
		}
	})
}
