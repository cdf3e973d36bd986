package main

import (
	"bytes"
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

	"github.com/llmgov/llmgov/internal/lib/certs"
	"github.com/llmgov/llmgov/internal/ops/adminapi"
	"github.com/llmgov/llmgov/tenants"
)

// askPatience is the time that a gateway has to answer, from memory or from its files.
const askPatience = 10 * time.Second

// maxAnswer is the largest answer that is read, in bytes: ten thousand tenants are four million.
const maxAnswer = 64 << 20

// adminSide is the admin side of a running gateway.
type adminSide struct {
	where, token string
	client       *http.Client
}

// asking are the flags of a command that asks a running gateway.
type asking struct {
	Config string `short:"c" placeholder:"FILE" help:"The config file. Default llmgov.yaml, if it exists."`
	Admin  string `placeholder:"URL" help:"The admin side of the gateway to ask. Default: the one in the config."`
}

// side is the admin side of that gateway.
func (a asking) side(e *env) (*adminSide, error) {
	admin, err := loadAdmin(e, a.Config)
	if err != nil {
		return nil, err
	}
	return adminSideOf(a.Admin, admin)
}

// ask sends a request with a body, or nil, and decodes the answer into a value, or leaves it.
func (a asking) ask(e *env, method, path string, body, into any) (*adminSide, error) {
	side, err := a.side(e)
	if err != nil {
		return nil, err
	}
	var data []byte
	if body != nil {
		if data, err = json.Marshal(body); err != nil {
			return nil, err
		}
	}
	if err := side.ask(e.ctx, method, path, data, into); err != nil {
		return nil, fmt.Errorf("llmgov: %w", err)
	}
	return side, nil
}

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
	side := &adminSide{token: cfg.Token, client: http.DefaultClient}
	var err error
	if given != "" {
		side.where, err = adminAt(given)
		return side, err
	}
	side.where, err = adminOf(cfg.Listen)
	if err != nil || cfg.TLS.Cert == "" {
		return side, err
	}
	config, err := certs.Client(certs.Files(cfg.TLS))
	if err != nil {
		return nil, fmt.Errorf("admin.tls: %w; name the gateway with --admin instead", err)
	}
	side.where = strings.Replace(side.where, "http:", "https:", 1)
	side.client = &http.Client{Transport: &http.Transport{TLSClientConfig: config}}
	return side, nil
}

// read reads a path, and decodes the answer.
func (a *adminSide) read(ctx context.Context, path string, into any) error {
	return a.ask(ctx, http.MethodGet, path, nil, into)
}

// ask sends a request, and decodes the answer into a value, unless that is nil.
func (a *adminSide) ask(ctx context.Context, method, path string, body []byte, into any) error {
	status, answer, err := a.send(ctx, method, path, body)
	if err != nil {
		return err
	}
	if status/100 == 2 && (into == nil || json.Unmarshal(answer, into) == nil) {
		return nil
	}
	err = refusalOf(status, answer)
	if err == nil {
		err = fmt.Errorf("status %d without the answer to %s %s; is this a gateway of this version?", status, method, path)
	}
	return &saidError{a.where, err.Error()}
}

// send sends a request.
func (a *adminSide) send(ctx context.Context, method, path string, body []byte) (status int, answer []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, a.where+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	if a.token != "" {
		req.Header.Set("Authorization", "Bearer "+a.token)
	}
	resp, err := a.client.Do(req)
	if err != nil {
		return 0, nil, fmt.Errorf("no gateway answers at %s (%w)", a.where, cause(err))
	}
	defer resp.Body.Close()
	answer, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return 0, nil, fmt.Errorf("the gateway at %s broke off (%w)", a.where, cause(err))
	}
	return resp.StatusCode, answer, nil
}

// refusalOf is the reason that the listener gives for an answer without content, nil if it gives none.
func refusalOf(status int, body []byte) error {
	var said struct {
		adminapi.ErrorAnswer
		adminapi.ProblemList
	}
	switch err := json.Unmarshal(body, &said); {
	case err == nil && said.Error.Message != "":
		return errors.New(strings.TrimSuffix(said.Error.Message, "."))
	case err == nil && status == http.StatusUnprocessableEntity && len(said.Problems) > 0:
		text := "the files are invalid, and the previous policy stays in force:"
		for _, p := range said.Problems {
			text += "\n" + p.String()
		}
		return errors.New(text)
	case err == nil && len(said.Problems) > 0:
		return errors.New(said.Problems[0].Message)
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
