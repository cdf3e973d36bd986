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

	"github.com/llmgov/llmgov/internal/adminapi"
	"github.com/llmgov/llmgov/tenants"
)

// askPatience is the time that a gateway has to answer; its answers come from memory.
const askPatience = 5 * time.Second

// maxAnswer is the largest answer that is read, in bytes: ten thousand tenants are four million.
const maxAnswer = 64 << 20

// adminSide is the admin side of a running gateway.
type adminSide struct{ where, token string }

// loadAdmin reads the address of the admin side, even if the rest of the files is invalid.
func loadAdmin(e *env, config string) (tenants.Admin, error) {
	config = configHere(config)
	if config == "" {
		cfg, err := tenants.Overlay(tenants.DefaultConfig(), tenants.Options{Env: e.vars})
		return cfg.Admin, err
	}
	return tenants.LoadAdmin(config, tenants.Options{Env: e.vars})
}

// adminSideOf is the admin side at the given address, else the one in the config.
func adminSideOf(given string, cfg tenants.Admin) (*adminSide, error) {
	where := ""
	err := error(nil)
	if given == "" {
		where, err = adminOf(cfg.Listen)
	} else {
		where, err = adminAt(given)
	}
	if err != nil {
		return nil, err
	}
	return &adminSide{where: where, token: cfg.Token}, nil
}

// get reads a path.
func (a *adminSide) get(ctx context.Context, path string) (status int, body []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, a.where+path, http.NoBody)
	if err != nil {
		return 0, nil, err
	}
	if a.token != "" {
		req.Header.Set("Authorization", "Bearer "+a.token)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, nil, fmt.Errorf("no gateway answers at %s (%w)", a.where, cause(err))
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return 0, nil, fmt.Errorf("the gateway at %s broke off (%w)", a.where, cause(err))
	}
	return resp.StatusCode, body, nil
}

// refusalOf is the reason that the listener gives for an answer without content, nil if it gives none.
func refusalOf(status int, body []byte) error {
	var said adminapi.ErrorAnswer
	switch err := json.Unmarshal(body, &said); {
	case err == nil && said.Error.Message != "":
		return errors.New(strings.TrimSuffix(said.Error.Message, "."))
	case status == http.StatusUnauthorized:
		return errors.New("the admin token is missing or wrong; set admin.token as that gateway has it")
	}
	return nil
}

// cause is the reason of a failed request, without its address.
func cause(err error) error {
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return op.Err
	}
	if u, ok := errors.AsType[*neturl.Error](err); ok {
		return u.Err
	}
	return err
}

// adminOf is the URL, from this machine, of a gateway with this admin.listen.
func adminOf(listen string) (string, error) {
	host, port, err := net.SplitHostPort(listen)
	if err != nil || port == "0" {
		return "", fmt.Errorf("admin.listen (%s) is not an address to connect to; give one with --admin", listen)
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "localhost"
	}
	return "http://" + net.JoinHostPort(host, port), nil
}

// adminAt parses the value of --admin.
func adminAt(text string) (string, error) {
	if !strings.Contains(text, "://") {
		text = "http://" + text
	}
	u, err := neturl.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.RawQuery != "" {
		return "", &usageError{"--admin " + text + " is not an address; write one such as http://127.0.0.1:9090"}
	}
	return strings.TrimRight(text, "/"), nil
}
