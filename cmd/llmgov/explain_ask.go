package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	neturl "net/url"
	"strings"
	"time"

	"github.com/llmgov/llmgov/internal/gateway"
	"github.com/llmgov/llmgov/tenants"
)

// askPatience is how long a gateway may take to explain: it only looks into its books.
const askPatience = 5 * time.Second

// maxExplanation is the largest answer that is read, in bytes.
const maxExplanation = 4 << 20

// saidError is a gateway that was reached and does not explain.
type saidError struct{ where, what string }

func (e *saidError) Error() string { return "the gateway at " + e.where + " says: " + e.what }

// ask asks the running gateway, and says which one that is.
func (c explainCmd) ask(e *env, cfg *tenants.Config, query neturl.Values) (x *gateway.Explanation, where string, err error) {
	if c.Admin == "" {
		where, err = adminOf(cfg.Admin.Listen)
	} else {
		where, err = adminAt(c.Admin)
	}
	if err != nil {
		return nil, "", err
	}
	ctx, cancel := context.WithTimeout(e.ctx, askPatience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, where+"/api/v1/explain?"+query.Encode(), http.NoBody)
	if err != nil {
		return nil, "", err
	}
	if cfg.Admin.Token != "" {
		req.Header.Set("Authorization", "Bearer "+cfg.Admin.Token)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, "", fmt.Errorf("no gateway answers at %s (%w)", where, cause(err))
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxExplanation))
	if err != nil {
		return nil, "", fmt.Errorf("the gateway at %s broke off (%w)", where, cause(err))
	}
	if x, err = readExplanation(resp.StatusCode, body); err != nil {
		return nil, "", &saidError{where, err.Error()}
	}
	return x, where, nil
}

// readExplanation reads an answer, of whatever listens there.
func readExplanation(status int, body []byte) (*gateway.Explanation, error) {
	var said struct {
		gateway.Explanation
		Error struct{ Message string }
	}
	err := json.Unmarshal(body, &said)
	switch {
	case err == nil && status == http.StatusOK && said.Decision != nil:
		return &said.Explanation, nil
	case err == nil && said.Error.Message != "":
		return nil, errors.New(strings.TrimSuffix(said.Error.Message, "."))
	case status == http.StatusUnauthorized:
		return nil, errors.New("the admin token is missing or wrong; set admin.token as that gateway has it")
	}
	return nil, fmt.Errorf("status %d, and nothing that explains; is it a gateway, and not an older one?", status)
}

// cause is why a request failed, without its address.
func cause(err error) error {
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return op.Err
	}
	if u, ok := errors.AsType[*neturl.Error](err); ok {
		return u.Err
	}
	return err
}

// adminOf is where a gateway that listens so can be asked from this machine.
func adminOf(listen string) (string, error) {
	host, port, err := net.SplitHostPort(listen)
	if err != nil || port == "0" {
		return "", fmt.Errorf("admin.listen (%s) does not say where a gateway can be asked; name it with --admin", listen)
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "localhost"
	}
	return "http://" + net.JoinHostPort(host, port), nil
}

// adminAt is the address that was given.
func adminAt(text string) (string, error) {
	if !strings.Contains(text, "://") {
		text = "http://" + text
	}
	u, err := neturl.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.RawQuery != "" {
		return "", &usageError{"--admin " + text + " is no address; write one such as http://127.0.0.1:9090"}
	}
	return strings.TrimRight(text, "/"), nil
}
