package admin

import (
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/tenants"
)

// A page has the tenants that were asked for, and leads to the next; pages one after the other have all.
func TestPage(t *testing.T) {
	var list []tenants.Tenant
	for _, name := range []string{"Acme", "acme-2", "acme-2/search", "acme-2/search/deep", "beta", "gamma"} {
		list = append(list, tenants.Tenant{Name: name, Tier: map[bool]string{true: "gold", false: "free"}[name == "gamma"]})
	}
	for query, want := range map[string]string{
		"":                                   "6 Acme acme-2 acme-2/search acme-2/search/deep beta gamma",
		"q=ACME":                             "4 Acme acme-2 acme-2/search acme-2/search/deep",
		"q=gold":                             "1 gamma",
		"q=nobody":                           "0",
		"tenant=acme-2":                      "3 acme-2 acme-2/search acme-2/search/deep",
		"tenant=acme":                        "0",
		"limit=2":                            "6 Acme acme-2 → acme-2",
		"limit=2&after=acme-2":               "6 acme-2/search acme-2/search/deep → acme-2/search/deep",
		"limit=2&after=acme-2%2Fsearch/deep": "6 beta gamma",
		"after=beta":                         "6 gamma",
		"q=acme&limit=3&tenant=acme-2":       "3 acme-2 acme-2/search acme-2/search/deep",
		"after=zzz":                          "6",
		"limit=0":                            `limit must be from 1 to 10000, not "0".`,
		"limit=10001":                        `limit must be from 1 to 10000, not "10001".`,
		"limit=many":                         `limit must be from 1 to 10000, not "many".`,
		"pool=p":                             `There is no parameter "pool"; there are tenant, q, limit, after.`,
	} {
		p, err := readPage(testkit.Must(url.ParseQuery(query))(t), ofPages)
		got := ""
		if err != nil {
			got = err.Error()
		} else {
			names, total, next := p.of(list)
			got = strings.Join(append([]string{string(rune('0' + total))}, slices.Sorted(maps.Keys(names))...), " ")
			if next != "" {
				got += " → " + next
			}
		}
		if got != want {
			t.Errorf("%q: %s, want %s", query, got, want)
		}
	}
}
