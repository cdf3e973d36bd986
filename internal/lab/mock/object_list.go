package mock

import (
	"slices"
	"strconv"
)

// list is the page of a list that the query asks for: newest first, and "before" is the page that
// ends there.
func (v *objectCall) list() (map[string]any, *apiError) {
	query := v.r.URL.Query()
	row := slices.Clone(v.s.account.rows[v.listPath()])
	if purpose := query.Get("purpose"); purpose != "" {
		row = slices.DeleteFunc(row, func(t *object) bool { return t.view["purpose"] != purpose })
	}
	if query.Get("order") != "asc" {
		slices.Reverse(row)
	}
	limit := 20
	most := 100
	if v.listPath() == "files" {
		limit = 10_000
		most = 10_000
	}
	if text := query.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > most {
			return nil, badRequest("limit", "Invalid 'limit': "+text+".")
		}
		limit = n
	}
	at := func(id string) int { return slices.IndexFunc(row, func(t *object) bool { return t.id == id }) }
	more := false
	if id := query.Get("before"); id != "" {
		i := at(id)
		if i < 0 {
			return nil, noObject(id)
		}
		row = row[max(0, i-limit):i]
		more = i > limit
	} else {
		if id := query.Get("after"); id != "" {
			i := at(id)
			if i < 0 {
				return nil, noObject(id)
			}
			row = row[i+1:]
		}
		more = len(row) > limit
		row = row[:min(limit, len(row))]
	}
	return pageOf(row, more), nil
}

func pageOf(row []*object, more bool) map[string]any {
	data := []any{}
	page := map[string]any{"object": "list", "has_more": more, "first_id": nil, "last_id": nil}
	for _, t := range row {
		data = append(data, t.view)
	}
	if len(row) > 0 {
		page["first_id"] = row[0].id
		page["last_id"] = row[len(row)-1].id
	}
	page["data"] = data
	return page
}
