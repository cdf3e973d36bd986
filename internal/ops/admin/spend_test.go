package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/llmgov/llmgov/federation/spend"
	"github.com/llmgov/llmgov/internal/test/testkit"
)

// TestReadSpendQuery: which days are added up by what, and what is no question.
func TestReadSpendQuery(t *testing.T) {
	now := time.Date(2027, 3, 5, 12, 0, 0, 0, time.UTC)
	for query, want := range map[string]string{
		"":                              "2027-03-01 2027-03-05 [tenant] ",
		"by=team,model&tenant=acme":     "2027-03-01 2027-03-05 [team model] acme",
		"by=team&by=day&to=2027-03-02":  "2027-03-01 2027-03-02 [team day] ",
		"from=2026-01-31&to=2026-02-01": "2026-01-31 2026-02-01 [tenant] ",
		"from=0000-01-01":               `from must be a day such as 2027-03-05, not "0000-01-01".`,
		"from=2027-02-30":               `from must be a day such as 2027-03-05, not "2027-02-30".`,
		"to=today":                      `to must be a day such as 2027-03-05, not "today".`,
		"from=2027-03-02&to=2027-03-01": "from (2027-03-02) is after to (2027-03-01).",
		"by=":                           `by must be of day, tenant, team, model, upstream, not "".`,
		"by=key":                        `by must be of day, tenant, team, model, upstream, not "key".`,
		"pool=p":                        `There is no parameter "pool"; there are by, from, to and tenant.`,
	} {
		values, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		q, err := readSpendQuery(values, now)
		got := fmt.Sprint(q.from, " ", q.to, " ", q.by, " ", q.tenant)
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%q: %s\nwant %s", query, got, want)
		}
	}
}

// TestSpendQuery_Group: what is left of a key.
func TestSpendQuery_Group(t *testing.T) {
	k := spend.Key{Day: "2027-03-05", Tenant: "acme/a/b", Model: "m", Upstream: "u"}
	for by, want := range map[string]spend.Key{
		"day,model": {Day: k.Day, Model: "m"}, "tenant": {Tenant: "acme"}, "team": {Tenant: k.Tenant}, "tenant,team": {Tenant: k.Tenant},
		"team,tenant,upstream": {Tenant: k.Tenant, Upstream: "u"},
	} {
		q := spendQuery{by: strings.Split(by, ",")}
		if got := q.group(k); got != want {
			t.Errorf("by %s it is %+v, want %+v", by, got, want)
		}
	}
	for tenant, want := range map[string]bool{"": true, "acme": true, "acme/a": true, "acm": false, "acme/a/b/c": false} {
		if q := (spendQuery{tenant: tenant}); q.has(spend.Row{Key: k}) != want {
			t.Errorf("of %q: not %v", tenant, want)
		}
	}
}

// TestShowSpend: rows are added up as they are read, for one caller at a time; whoever leaves meanwhile does not wait.
func TestShowSpend(t *testing.T) {
	testkit.Virtual(t, "", func(t *testing.T) {
		reading := 0
		a := &API{zone: time.UTC, reading: make(chan struct{}, 1), Options: Options{
			Spend: func(_ context.Context, _, _ string, each func(spend.Row)) (bool, error) {
				reading++
				if reading > 1 {
					t.Error("two read at once")
				}
				for _, tenant := range []string{"acme", "acme/x", "other"} {
					each(spend.Row{Key: spend.Key{Tenant: tenant}, Sum: spend.Sum{spend.Calls: 1}})
					time.Sleep(time.Second)
				}
				reading--
				return true, nil
			},
		}}
		for i := range 4 {
			go func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i+1)*2*time.Second)
				defer cancel()
				w := httptest.NewRecorder()
				err := a.showSpend(w, httptest.NewRequest(http.MethodGet, "/api/v1/spend?tenant=acme", nil).WithContext(ctx))
				if err == nil && !strings.Contains(w.Body.String(), `"calls": 2`) {
					t.Errorf("it is told %s", w.Body)
				}
				if err != nil && !errors.Is(err, context.DeadlineExceeded) {
					t.Error(err)
				}
			}()
		}
		time.Sleep(time.Minute)
	})
}
