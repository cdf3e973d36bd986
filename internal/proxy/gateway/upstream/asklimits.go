package upstream

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/llmgov/llmgov/escrow/limits"
	"github.com/llmgov/llmgov/internal/proxy/upstreams"
	"github.com/llmgov/llmgov/tenants"
)

// AskLimits returns the limits of a model: those that the provider lists, if the config has a key for that, or else those that the upstream declares
// when the model answers with one token. The error is that it does not answer, refuses the call, or lists no such model.
func (u *Upstream) AskLimits(ctx context.Context, through http.RoundTripper, model string) (told upstreams.Told, err error) {
	if u.limitsAPI.Key != "" {
		return u.listed(ctx, through, model)
	}
	path := "/chat/completions"
	if u.Provider.Kind == tenants.Anthropic {
		path = "/messages"
	}
	for _, bound := range []string{"max_tokens", "max_completion_tokens"} { // some models know only the second
		body, _ := json.Marshal(map[string]any{"model": model, bound: 1, "messages": []any{map[string]string{"role": "user", "content": "."}}})
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, u.Address.URL(path, model, nil), bytes.NewReader(body))
		if err != nil {
			return told, err
		}
		r.Header.Set("Content-Type", "application/json")
		u.Sign(r.Header)
		resp, err := u.RoundTrip(through, r)
		if err != nil {
			return told, err
		}
		_ = resp.Body.Close()
		told = u.Provider.Limits.Read(resp.Header)
		if resp.StatusCode/100 == 2 || told != (upstreams.Told{}) {
			return told, nil
		}
		if resp.StatusCode != http.StatusBadRequest {
			return told, fmt.Errorf("it answers %s", resp.Status)
		}
	}
	return told, fmt.Errorf("it answers %d %s", http.StatusBadRequest, http.StatusText(http.StatusBadRequest))
}

// AskTimeout is how long to wait for the answer to AskLimits.
const AskTimeout = 30 * time.Second

// limitsPage is a page of OpenAI's list of a project's limits, or of Anthropic's of an organization's or a workspace's.
type limitsPage struct {
	Data []struct {
		// Of OpenAI each entry is a model.
		Model    string `json:"model"`
		Requests int64  `json:"max_requests_per_1_minute"`
		Tokens   int64  `json:"max_tokens_per_1_minute"`
		// Of Anthropic each is a group of models.
		Models []string `json:"models"`
		Limits []struct {
			Type  string `json:"type"`
			Value int64  `json:"value"`
		} `json:"limits"`
	} `json:"data"`
	HasMore bool   `json:"has_more"`  // OpenAI's,
	LastID  string `json:"last_id"`   // from which the next page goes on
	Next    string `json:"next_page"` // Anthropic's
}

// listedAxes are the axes of Anthropic's limits that pools have.
var listedAxes = map[string]limits.Axis{
	"requests_per_minute": upstreams.Requests, "input_tokens_per_minute": upstreams.Input,
	"input_tokens_per_minute_cache_aware": upstreams.Input, "output_tokens_per_minute": upstreams.Output,
}

const (
	// mostPages bounds the pages of a list, and mostPage the bytes of one.
	mostPages, mostPage = 100, 4 << 20
)

// listed are the limits of a model in the provider's lists, of which later ones go before earlier ones.
func (u *Upstream) listed(ctx context.Context, through http.RoundTripper, model string) (told upstreams.Told, err error) {
	lists := []string{"/organization/projects/" + u.limitsAPI.Project + "/rate_limits"}
	if u.Provider.Kind == tenants.Anthropic {
		lists = []string{"/organizations/rate_limits"}
		if u.limitsAPI.Workspace != "" { // which has only what is different there
			lists = append(lists, "/organizations/workspaces/"+u.limitsAPI.Workspace+"/rate_limits")
		}
	}
	for _, list := range lists {
		query := url.Values{}
		for range mostPages {
			page, err := u.limitsPage(ctx, through, u.Address.URL(list, "", query))
			if err != nil {
				return told, err
			}
			page.take(&told, model)
			switch {
			case page.Next != "":
				query.Set("page", page.Next)
				continue
			case page.HasMore && page.LastID != "":
				query.Set("after", page.LastID)
				continue
			}
			break
		}
	}
	if told == (upstreams.Told{}) {
		return told, fmt.Errorf("its list of limits has no such model")
	}
	return told, nil
}

// take takes in the limits of a model.
func (p *limitsPage) take(told *upstreams.Told, model string) {
	for _, entry := range p.Data {
		if entry.Model == model {
			told[upstreams.Requests] = entry.Requests
			told[upstreams.Tokens] = entry.Tokens
		}
		for _, l := range entry.Limits {
			if of, known := listedAxes[l.Type]; known && slices.Contains(entry.Models, model) {
				told[of] = l.Value
			}
		}
	}
}

// limitsPage asks for a page of a list.
func (u *Upstream) limitsPage(ctx context.Context, through http.RoundTripper, address string) (page limitsPage, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return page, err
	}
	u.Provider.Sign(r.Header, u.Provider.Key(u.limitsAPI.Key))
	resp, err := u.RoundTrip(through, r)
	if err != nil {
		return page, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return page, fmt.Errorf("its list of limits answers %s", resp.Status)
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, mostPage)).Decode(&page); err != nil {
		return page, fmt.Errorf("its list of limits cannot be read: %w", err)
	}
	return page, nil
}
