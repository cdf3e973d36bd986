package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	neturl "net/url"

	"github.com/llmgov/llmgov/internal/ops/adminapi"
)

// saidError is the error that a gateway answered instead of an explanation.
type saidError struct{ where, what string }

func (e *saidError) Error() string { return "the gateway at " + e.where + " says: " + e.what }

// explanation is the answer to a question.
func (a *adminSide) explanation(ctx context.Context, query neturl.Values) (*adminapi.Explanation, error) {
	status, body, err := a.send(ctx, http.MethodGet, "/api/v1/explain?"+query.Encode(), nil)
	if err != nil {
		return nil, err
	}
	x, err := readExplanation(status, body)
	if err != nil {
		return nil, &saidError{a.where, err.Error()}
	}
	return x, nil
}

// readExplanation reads an answer, which may come from another server.
func readExplanation(status int, body []byte) (*adminapi.Explanation, error) {
	var x adminapi.Explanation
	if status == http.StatusOK && json.Unmarshal(body, &x) == nil && x.Decision != nil {
		return &x, nil
	}
	if err := refusalOf(status, body); err != nil {
		return nil, err
	}
	return nil, fmt.Errorf("status %d without an explanation; is this a gateway of this version?", status)
}
