package admin

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/llmgov/llmgov/internal/lib/text"
	"github.com/llmgov/llmgov/internal/ops/adminapi"
	"github.com/llmgov/llmgov/tenants"
)

// maxPage bounds the tenants of one answer that has a limit.
const maxPage = 10_000

// page says which tenants somebody wants to see; the zero page is all.
type page struct {
	tenant string // alone, with its teams
	query  string // in names and tiers, in lower case
	after  string
	limit  int // 0 is none
}

// The parameters of an answer that has pages, and of another.
var (
	ofPages = []string{"tenant", "q", "limit", "after"}
	ofOne   = ofPages[:3]
)

// readPage reads a page from the query of a URL, of which there are some parameters.
func readPage(query url.Values, known []string) (p page, err error) {
	for name, values := range query {
		value := values[0]
		if !slices.Contains(known, name) {
			return page{}, adminapi.BadRequest("There is no parameter " + strconv.Quote(text.Brief(name)) + "; there are " + strings.Join(known, ", ") + ".")
		}
		switch name {
		case "tenant":
			p.tenant = value
		case "q":
			p.query = strings.ToLower(value)
		case "after":
			p.after = value
		case "limit":
			p.limit, err = strconv.Atoi(value)
			if err != nil || p.limit < 1 || p.limit > maxPage {
				return page{}, adminapi.BadRequest("limit must be from 1 to " + strconv.Itoa(maxPage) + ", not " + strconv.Quote(text.Brief(value)) + ".")
			}
		}
	}
	return p, nil
}

// picks reports whether the page's tenants are chosen by their names.
func (p *page) picks() bool { return p.tenant != "" || p.query != "" }

// has reports whether a tenant is among those that the page is of.
func (p *page) has(t *tenants.Tenant) bool {
	if p.tenant != "" && t.Name != p.tenant && !strings.HasPrefix(t.Name, p.tenant+"/") {
		return false
	}
	return p.query == "" || strings.Contains(strings.ToLower(t.Name), p.query) || strings.Contains(strings.ToLower(t.Tier), p.query)
}

// of lists the page's tenants, and says how many there are on all pages, and after whom the next page begins.
func (p *page) of(list []tenants.Tenant) (names map[string]bool, total int, next string) {
	names = map[string]bool{}
	last := ""
	for i := range list {
		t := &list[i]
		if !p.has(t) {
			continue
		}
		total++
		switch {
		case t.Name <= p.after:
		case p.limit == 0 || len(names) < p.limit:
			names[t.Name] = true
			last = t.Name
		default:
			next = last
		}
	}
	return names, total, next
}

// mostIdle is how many tenants a policy has at most of which readers see also those that have not called.
const mostIdle = 1000

// shown says whose books are to be read for a page: of very many tenants those that have called, or were asked for.
func (a *API) shown(p *page) []func(tenant string) bool {
	snap := a.gateway.Snapshot()
	switch {
	case p.picks():
		return []func(string) bool{func(name string) bool {
			t, known := snap.TenantByName(name)
			return known && p.has(t)
		}}
	case len(snap.Tenants()) > mostIdle:
		return []func(string) bool{a.Governor.Called}
	}
	return nil
}
