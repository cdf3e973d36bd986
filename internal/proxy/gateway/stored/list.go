package stored

import (
	"errors"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/tidwall/gjson"

	"github.com/llmgov/llmgov/internal/lib/text"
	"github.com/llmgov/llmgov/internal/proxy/gateway/head"
	"github.com/llmgov/llmgov/internal/proxy/objects"
	"github.com/llmgov/llmgov/internal/run/admission/ask"
)

const (
	// maxPages and ListPatience bound how far a list is read for one answer.
	maxPages = 20
	// ListPatience is also how long the gateway waits for an object that it asks for by itself.
	ListPatience = 2 * time.Second
)

// ErrUnreadable means that no list or object was found in an answer.
var ErrUnreadable = errors.New("the upstream's answer cannot be read")

// Page is the part of a list that a query asks for.
type Page struct {
	After, Before string // ids; one of them is empty
	Limit         int
}

// ReadPage reads a query for a list of objects of a kind. Its cursor has to be checked: another tenant's would
// reveal its position.
func ReadPage(query url.Values, kind objects.Kind) (Page, *ask.Refusal) {
	p := Page{After: query.Get("after"), Before: query.Get("before"), Limit: 20}
	most := 100
	if kind == objects.File {
		most = 10_000
		p.Limit = 10_000
	}
	if limit := query.Get("limit"); limit != "" {
		n, err := strconv.Atoi(limit)
		if err != nil || n < 1 || n > most {
			return p, invalid("limit", "limit must be a whole number from 1 to "+strconv.Itoa(most)+", not "+strconv.Quote(text.Brief(limit))+".")
		}
		p.Limit = n
	}
	if p.After != "" && p.Before != "" {
		return p, invalid("before", "Say after or before, not both.")
	}
	return p, nil
}

// Cursor is the id at which the page begins or ends, and the key that names it; "" is none.
func (p Page) Cursor() (key, id string) {
	if p.Before != "" {
		return "before", p.Before
	}
	return "after", p.After
}

// Read reads the upstream's list for the objects that the tenant may see. ask asks the upstream for a page.
func (p Page) Read(query url.Values, sees func(id string) bool, ask func(url.Values) ([]byte, error)) (*List, error) {
	until := time.Now().Add(ListPatience)
	f := filter{
		sees: sees,
		fetch: func(cursor string) (listPage, error) {
			body, err := ask(p.query(query, cursor))
			if err != nil {
				return listPage{}, err
			}
			return parsePage(body)
		},
		enough:   func(pages int) bool { return pages >= maxPages || time.Now().After(until) },
		backward: p.Before != "",
	}
	_, cursor := p.Cursor()
	found, err := f.run(cursor, p.Limit)
	return &List{found}, err
}

// query asks for one page of the upstream's list: a large one, since most of it is others'.
func (p Page) query(query url.Values, cursor string) url.Values {
	q := maps.Clone(query)
	if q == nil {
		q = url.Values{}
	}
	q.Set("limit", strconv.Itoa(max(p.Limit, 100)))
	if p.Before != "" {
		q.Set("before", cursor)
	} else if cursor != "" {
		q.Set("after", cursor)
	}
	return q
}

func parsePage(body []byte) (listPage, error) {
	if head.WellFormed(body) != nil {
		return listPage{}, ErrUnreadable
	}
	root := gjson.Parse(string(body))
	data := root.Get("data")
	if !data.IsArray() {
		return listPage{}, ErrUnreadable
	}
	out := listPage{more: root.Get("has_more").Bool()}
	data.ForEach(func(_, item gjson.Result) bool {
		out.items = append(out.items, listItem{item.Get("id").Str, item.Raw})
		return true
	})
	return out, nil
}

// List is the part of a list that a tenant may see.
type List struct{ listed }

// Each calls f for each object until it returns an error.
func (l *List) Each(f func(id, raw string) error) error {
	for _, item := range l.items {
		if err := f(item.id, item.raw); err != nil {
			return err
		}
	}
	return nil
}

// TooLong refuses an answer if nothing was found in a list that was too long to be read to its end.
func (l *List) TooLong() *ask.Refusal {
	if !l.short || len(l.items) > 0 {
		return nil
	}
	return &ask.Refusal{
		Status: http.StatusServiceUnavailable, Code: ask.CodeOverloaded,
		Message: "None of your objects is among the first of this account's list, and it was too long to be read to its end. Ask for them by their ids.",
	}
}

// JSON is the list as the tenant gets it.
func (l *List) JSON() []byte {
	first := "null"
	last := "null"
	if n := len(l.items); n > 0 {
		first = strconv.Quote(l.items[0].id)
		last = strconv.Quote(l.items[n-1].id)
	}
	b := []byte(`{"object":"list","data":[`)
	for i, item := range l.items {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, item.raw...)
	}
	b = append(b, `],"first_id":`+first+`,"last_id":`+last+`,"has_more":`...)
	return append(strconv.AppendBool(b, l.more), '}')
}

func invalid(param, message string) *ask.Refusal {
	return &ask.Refusal{Status: http.StatusBadRequest, Code: ask.CodeInvalid, Param: param, Message: message}
}
