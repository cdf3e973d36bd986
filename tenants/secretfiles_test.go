package tenants

import (
	"errors"
	"strings"
	"testing"
)

// TestLoad_Secrets: secrets come from the files that the config names, beside it or anywhere; what is wrong with them is said without them.
func TestLoad_Secrets(t *testing.T) {
	config := "upstreams:\n  openai: {base_url: \"https://api.openai.com/v1\", api_key: \"file:secrets/openai\"}\npools:\n  main: {models: [gpt-4o], tpm: 1000}\n" +
		"admin: {token: \"file:/run/admin\"}\nadmission: {listen: \"127.0.0.1:9091\", token: \"file:secrets/admission\"}\nstore: \"file:secrets/store\"\n"
	load := func(changed map[string]string) (*Config, error) {
		all := map[string]string{
			"etc/llmgov.yaml": config, "etc/tenants/all.yaml": goodPolicy, "etc/secrets/openai": "sk-1\n", "run/admin": "token-of-the-admin-side\n",
			"etc/secrets/admission": "token-of-the-admission-side", "etc/secrets/store": "redis://:word@cache:6379\r\n",
		}
		for name, text := range changed {
			all[name] = text
			if text == "" {
				delete(all, name)
			}
		}
		snap, err := LoadFS(files(all), "etc/llmgov.yaml", Options{Store: func(address string) error {
			if strings.Contains(address, "never") {
				return errors.New("nobody opens that")
			}
			return nil
		}})
		if err != nil {
			return nil, err
		}
		return snap.Config(), nil
	}
	cfg, err := load(nil)
	if err != nil {
		t.Fatal(err)
	}
	got := [...]string{cfg.Upstreams[0].APIKey, cfg.Admin.Token, cfg.Admission.Token, cfg.Store}
	if want := [...]string{"sk-1", "token-of-the-admin-side", "token-of-the-admission-side", "redis://:word@cache:6379"}; got != want {
		t.Errorf("secrets %q, want %q", got, want)
	}
	for _, c := range []struct{ file, text, want string }{
		{"etc/secrets/openai", "", `etc/llmgov.yaml:2:`},
		{"etc/secrets/openai", "", `"secrets/openai" cannot be read`},
		{"etc/secrets/openai", "two words", `what is in "secrets/openai" (not shown) holds spaces`},
		{"etc/secrets/openai", "\n", `what is in "secrets/openai" (not shown) is empty`},
		{"run/admin", "tiny", `what is in "/run/admin" (not shown) is shorter than 16 characters`},
		{"etc/secrets/store", "redis:word", `what is in "secrets/store" (not shown)`},
		{"etc/secrets/store", "redis://never:6379", `what is in "secrets/store" (not shown) nobody opens that`},
	} {
		_, err := load(map[string]string{c.file: c.text})
		if err == nil || !strings.Contains(err.Error(), c.want) || c.text != "" && c.text != "\n" && strings.Contains(err.Error(), c.text) {
			t.Errorf("%s of %q: %v; want %q", c.file, c.text, err, c.want)
		}
	}
}

// What is wrong with an upstream's certificates is said at the line that names them.
func TestLoad_UpstreamTLS(t *testing.T) {
	for _, c := range []struct{ address, tls, want string }{
		{"https://vllm", "{ca: gone.pem}", `etc/llmgov.yaml:2:50: upstreams.local.tls.ca: "gone.pem" cannot be read`},
		{"https://vllm", "{ca: llmgov.yaml}", "etc/llmgov.yaml:2:40: upstreams.local.tls: cannot be used: ca has no certificate in PEM"},
		{"https://vllm", "{cert: llmgov.yaml}", "upstreams.local.tls: cannot be used: cert and key are no pair"},
		{"https://vllm", "{key: llmgov.yaml}", "upstreams.local.tls: cannot be used: cert and key are no pair"},
		{"http://vllm", "{ca: llmgov.yaml}", "etc/llmgov.yaml:2:39: upstreams.local.tls: is for an upstream without TLS"},
		{"https://vllm", `{ca: ""}`, "names no file"},
		{"https://vllm", "{client_ca: a.pem}", `unknown key "client_ca"`},
	} {
		config := "upstreams:\n  local: {base_url: \"" + c.address + "/v1\", tls: " + c.tls + "}\npools:\n  main: {models: [gpt-4o], tpm: 1000}\n"
		_, err := LoadFS(files(map[string]string{"etc/llmgov.yaml": config, "etc/tenants/all.yaml": goodPolicy}), "etc/llmgov.yaml", Options{})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s at %s: %v; want %q", c.tls, c.address, err, c.want)
		}
	}
}
