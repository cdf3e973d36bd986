package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	neturl "net/url"

	"github.com/llmgov/llmgov/internal/adminapi"
	"github.com/llmgov/llmgov/tenants"
)

// saidError is the error that a gateway answered instead of an explanation.
type saidError struct{ where, what string }

func (e *saidError) Error() string { return "the gateway at " + e.where + " says: " + e.what }

// fetchExplanation queries the running gateway at the given address, else at that of the config, and returns its address.
func fetchExplanation(e *env, given string, admin tenants.Admin, query neturl.Values) (x *adminapi.Explanation, where string, err error) {
	side, err := adminSideOf(given, admin)
	if err != nil {
		return nil, "", err
	}
	status, body, err := side.get(e.ctx, "/api/v1/explain?"+query.Encode())
	if err != nil {
		return nil, "", err
	}
	x, err = readExplanation(status, body)
	if err != nil {
		return nil, "", &saidError{side.where, err.Error()}
	}
	return x, side.where, nil
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
