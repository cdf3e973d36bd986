package upstream

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/tidwall/gjson"
)

// How lists of models are asked for.
const (
	shelfFresh   = 5 * time.Minute  // a list is not asked for again before
	shelfRetry   = 30 * time.Second // after an upstream has not told
	shelfTimeout = 10 * time.Second // of one question
	Patience     = 2 * time.Second  // of a caller, for lists that were never heard
	shelfBytes   = 8 << 20
	shelfModels  = 5000 // of an upstream; more are left out
)

// modelList is the list of models that an upstream says it has, by which patterns in pools are listed
// by name. The upstream is asked when somebody wants to know, one question at a time, and the last
// answer is kept.
type modelList struct {
	mu     sync.Mutex
	models []string // nil if it was never heard
	due    time.Time
	asking chan struct{} // closed when the answer is there; nil while nobody asks
	asked  time.Time
}

// LookUp asks the upstream if it is time to. The returned channel is closed when there is something
// to see; nil means that there is nothing to wait for.
func (u *Upstream) LookUp(through http.RoundTripper) <-chan struct{} {
	s := u.modelList
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if s.asking == nil {
		if now.Before(s.due) {
			return nil
		}
		s.asking = make(chan struct{})
		s.asked = now
		go u.fill(through)
	}
	// An old answer will do while the upstream is asked again; and once one caller has waited in
	// vain, others need not.
	if s.models != nil || now.Sub(s.asked) >= Patience {
		return nil
	}
	return s.asking
}

// fill asks the upstream, for those who wait and those who come later.
func (u *Upstream) fill(through http.RoundTripper) {
	ctx, cancel := context.WithTimeout(context.Background(), shelfTimeout)
	defer cancel()
	models, err := u.askModels(ctx, through)
	s := u.modelList
	s.mu.Lock()
	defer s.mu.Unlock()
	s.due = time.Now().Add(shelfRetry)
	if err == nil {
		s.models = models
		s.due = time.Now().Add(shelfFresh)
	}
	close(s.asking)
	s.asking = nil
}

// Models is the last answer.
func (u *Upstream) Models() []string {
	s := u.modelList
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.models
}

// askModels asks an upstream for its models.
func (u *Upstream) askModels(ctx context.Context, through http.RoundTripper) ([]string, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, u.Address.URL("/models", "", u.Provider.ListQuery), nil)
	if err != nil {
		return nil, err
	}
	u.Sign(r.Header)
	resp, err := u.RoundTrip(through, r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, shelfBytes))
	if err != nil {
		return nil, err
	}
	list := gjson.ParseBytes(body)
	if !list.IsArray() { // as OpenAI and Anthropic have it
		list = list.Get("data")
	}
	if resp.StatusCode != http.StatusOK || !gjson.ValidBytes(body) || !list.IsArray() { // so is a list that is cut off
		return nil, fmt.Errorf("gateway: upstream %s lists no models: %s", u.Name, resp.Status)
	}
	return idsIn(list), nil
}

// idsIn are the ids in a list.
func idsIn(list gjson.Result) []string {
	models := []string{}
	list.ForEach(func(_, v gjson.Result) bool {
		if id := v.Get("id"); id.Type == gjson.String && id.Str != "" && len(id.Str) <= 256 {
			models = append(models, id.Str)
		}
		return len(models) < shelfModels
	})
	return models
}

// Keep takes over what was learned of the same upstream before a reload.
func (u *Upstream) Keep(before *Upstream) {
	u.modelList = before.modelList
	u.secured = before.secured
}
