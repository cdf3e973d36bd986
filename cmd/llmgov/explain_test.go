package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/llmgov/llmgov/internal/lab/mock"
)

// model: starts the simulated model server; $OPENAI_BASE_URL says where.
func cmdModel(ts *testscript.TestScript, _ bool, _ []string) {
	s, err := mock.New(mock.Config{})
	ts.Check(err)
	server := httptest.NewServer(s)
	ts.Defer(server.Close)
	ts.Setenv("OPENAI_BASE_URL", server.URL+"/v1")
}

// call STATUS KEY MODEL [TOKENS]: a short chat, or one with an answer of so many tokens.
func cmdCall(ts *testscript.TestScript, _ bool, args []string) {
	tokens := "20"
	if len(args) > 3 {
		tokens = args[3]
	}
	chat := fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":"Say hello"}],"max_tokens":%s}`, args[2], tokens)
	req, err := http.NewRequest(http.MethodPost, ts.Getenv("DATA")+"/v1/chat/completions", strings.NewReader(chat))
	ts.Check(err)
	req.Header.Set("Authorization", "Bearer "+args[1])
	req.Header.Set("X-Request-Id", "call-"+args[1])
	resp, err := http.DefaultClient.Do(req)
	ts.Check(err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	ts.Check(err)
	if strconv.Itoa(resp.StatusCode) != args[0] {
		ts.Fatalf("status %d, want %s: %s", resp.StatusCode, args[0], body)
	}
}

// Where a gateway listens is where it can be asked from its own machine.
func TestAdminAddress(t *testing.T) {
	for listen, want := range map[string]string{
		"127.0.0.1:9090": "http://127.0.0.1:9090",
		":9090":          "http://localhost:9090",
		"0.0.0.0:9090":   "http://localhost:9090",
		"[::]:9090":      "http://localhost:9090",
		"[::1]:9090":     "http://[::1]:9090",
		"admin:9090":     "http://admin:9090",
		"127.0.0.1:0":    "",
	} {
		if got, err := adminOf(listen); got != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v", listen, got, err)
		}
	}
	for given, want := range map[string]string{
		"10.0.0.7:9090":          "http://10.0.0.7:9090",
		"http://localhost:9090/": "http://localhost:9090",
		"https://llmgov/admin":   "https://llmgov/admin",
		"ftp://x":                "",
		"http://":                "",
		"http://x?tenant=a":      "",
		"a b":                    "",
	} {
		if got, err := adminAt(given); got != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v", given, got, err)
		}
	}
}

// What listens there may be something else, or older.
func TestReadExplanation(t *testing.T) {
	for _, tc := range []struct {
		status int
		body   string
		what   string // of the error; "" is none
	}{
		{200, `{"tenant":"a","limits":[],"decision":{"outcome":"admit"}}`, ""},
		{200, `{"tenant":"a"}`, "status 200 without an explanation"},
		{200, `<html>`, "status 200 without an explanation"},
		{404, "404 page not found\n", "status 404 without an explanation"},
		{401, "the admin token is missing or wrong\n", "set admin.token as that gateway has it"},
		{404, `{"error":{"code":"tenant_not_found","message":"There is no tenant \"x\"."}}`, `There is no tenant "x"`},
	} {
		x, err := readExplanation(tc.status, []byte(tc.body))
		switch {
		case tc.what == "" && (err != nil || x.Tenant != "a"):
			t.Errorf("%s: %v", tc.body, err)
		case tc.what != "" && (err == nil || !strings.Contains(err.Error(), tc.what)):
			t.Errorf("%d %s: %v", tc.status, tc.body, err)
		}
	}
}
