package admin

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/llmgov/llmgov/federation/spend"
	"github.com/llmgov/llmgov/governor"
	"github.com/llmgov/llmgov/internal/lib/text"
	"github.com/llmgov/llmgov/internal/ops/adminapi"
)

// spendKeys are the keys by which spend can be grouped. That of a team is its tenant's and its own.
var spendKeys = []string{"day", "tenant", "team", "model", "upstream"}

// spendQuery is which spend somebody wants to see.
type spendQuery struct {
	from, to string
	by       []string
	tenant   string // alone, with its teams; "" is all
}

// readSpendQuery reads the query of a URL: by default this month, by tenant.
func readSpendQuery(query url.Values, now time.Time) (q spendQuery, err error) {
	q = spendQuery{from: now.Format("2006-01") + "-01", to: spend.DayOf(now), by: spendKeys[1:2]}
	for name, values := range query {
		value := strings.Join(values, ",")
		switch name {
		case "from", "to":
			if at, bad := time.Parse(time.DateOnly, value); bad != nil || at.Year() == 0 { // which calendars do not have, nor PostgreSQL
				return q, adminapi.BadRequest(name + " must be a day such as " + q.to + ", not " + strconv.Quote(text.Brief(value)) + ".")
			}
		case "by":
			q.by = strings.Split(value, ",")
			for _, key := range q.by {
				if !slices.Contains(spendKeys, key) {
					return q, adminapi.BadRequest("by must be of " + strings.Join(spendKeys, ", ") + ", not " + strconv.Quote(text.Brief(key)) + ".")
				}
			}
		case "tenant":
			q.tenant = value
		default:
			return q, adminapi.BadRequest("There is no parameter " + strconv.Quote(text.Brief(name)) + "; there are by, from, to and tenant.")
		}
	}
	q.from = cmp.Or(query.Get("from"), q.from)
	q.to = cmp.Or(query.Get("to"), q.to)
	if q.from > q.to {
		return q, adminapi.BadRequest("from (" + q.from + ") is after to (" + q.to + ").")
	}
	return q, nil
}

// group leaves of a key what rows are grouped by.
func (q *spendQuery) group(k spend.Key) (out spend.Key) {
	for _, by := range q.by {
		switch by {
		case "day":
			out.Day = k.Day
		case "tenant":
			if out.Tenant == "" {
				out.Tenant, _ = k.Team()
			}
		case "team":
			out.Tenant = k.Tenant
		case "model":
			out.Model = k.Model
		case "upstream":
			out.Upstream = k.Upstream
		}
	}
	return out
}

// has reports whether a row is of the tenant that is asked for.
func (q *spendQuery) has(r spend.Row) bool {
	return q.tenant == "" || r.Tenant == q.tenant || strings.HasPrefix(r.Tenant, q.tenant+"/")
}

// showSpend answers GET /api/v1/spend.
func (a *API) showSpend(w http.ResponseWriter, r *http.Request) error {
	q, err := readSpendQuery(r.URL.Query(), time.Now().In(a.zone))
	if err != nil {
		return err
	}
	select {
	case a.reading <- struct{}{}:
		defer func() { <-a.reading }()
	case <-r.Context().Done():
		return r.Context().Err()
	}
	sums := spend.Sums{}
	all, err := a.Spend(r.Context(), q.from, q.to, func(r spend.Row) {
		if q.has(r) {
			sums.Add(q.group(r.Key), r.Sum)
		}
	})
	if err != nil {
		a.Log.Warn("spend cannot be read", "error", err)
		return &adminapi.Fault{Status: http.StatusServiceUnavailable, Code: "store_unavailable", Message: "What calls cost cannot be read now: " + err.Error() + "."}
	}
	answer := adminapi.Spend{From: q.from, To: q.to, Timezone: a.zone.String(), AllGateways: all, By: q.by, Rows: []adminapi.SpendRow{}}
	var total spend.Sum
	for _, r := range sums.Rows() {
		tenant, team := r.Team()
		answer.Rows = append(answer.Rows, adminapi.SpendRow{Day: r.Day, Tenant: tenant, Team: team, Model: r.Model, Upstream: r.Upstream, SpendFigures: figuresOf(r.Sum)})
		total = total.Plus(r.Sum)
	}
	answer.Total = figuresOf(total)
	respond(w, answer)
	return nil
}

func figuresOf(s spend.Sum) adminapi.SpendFigures {
	return adminapi.SpendFigures{
		Calls: s[spend.Calls], InputTokens: s[spend.Input], CachedInputTokens: s[spend.CachedInput], OutputTokens: s[spend.Output],
		EstimatedTokens: s[spend.EstimatedTokens], USD: governor.UnitMicroUSD.Amount(s[spend.MicroUSD]), EstimatedUSD: governor.UnitMicroUSD.Amount(s[spend.EstimatedMicroUSD]),
	}
}
