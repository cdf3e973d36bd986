package tenants

import (
	"io/fs"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"
)

// TestAudit_L7_WeakKeys: what can be found from its hash by trying is told from what cannot.
func TestAudit_L7_WeakKeys(t *testing.T) {
	for _, weak := range []string{"", "a", "sk-1234", "correct horse", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "passwordpassword1234", "12121212121212121212121212"} {
		err := CheckKeyStrength(weak)
		if err == nil || !strings.Contains(err.Error(), "make one with llmgov keys new") {
			t.Errorf("%q: %v", weak, err)
		}
		if weak != "" && weak != "a" && strings.Contains(err.Error(), weak) {
			t.Errorf("shows the key: %v", err)
		}
	}
	for range 1000 {
		if err := CheckKeyStrength(NewKey("a")); err != nil {
			t.Fatal(err)
		}
	}
	for _, good := range []string{"3f2504e0-4f89-11d3-9a0c-0305e82c3301", "9e107d9d372bb6826bd81d3542a419d6", "sk-V4yX0b7MZkq2LrT9aaYw1g"} {
		if err := CheckKeyStrength(good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
}

// TestAudit_L15_SecretsThatOthersMayRead: a secret written out in a file that others may read is told of, and one from a
// variable, or in a file of its owner's, is not. So are keys that leave the machine in clear.
func TestAudit_L15_SecretsThatOthersMayRead(t *testing.T) {
	const plain = `upstreams: {o: {base_url: "https://o/v1", api_key: "sk-written-out"}}
pools: {m: {models: [m], tpm: 1}}
admin: {token: "a-token-that-is-written-out"}
store: redis://u:pw-written-out@h
`
	variables := strings.NewReplacer("sk-written-out", "${K}", "a-token-that-is-written-out", "${T}", "redis://u:pw-written-out@h", `"redis://u:${P}@h"`).Replace(plain)
	clear := func(url string) string { return strings.Replace(variables, "https://o/v1", url, 1) }
	for _, c := range []struct {
		name, config string
		mode         fs.FileMode
		want         string
	}{
		{name: "others may read it", config: plain, mode: 0o644, want: "llmgov.yaml: other users of this machine may read admin.token, store, upstreams.o.api_key; write ${NAME} instead, or run chmod o-r llmgov.yaml"},
		{name: "the group may read it", config: plain, mode: 0o640},
		{name: "variables", config: variables, mode: 0o644},
		{name: "http to elsewhere", config: clear("http://vllm:8000/v1"), mode: 0o644, want: "upstream o: its api_key is sent in clear to vllm:8000; use https, unless the network is yours alone"},
		{name: "HTTP to elsewhere", config: clear("HTTP://10.0.0.7/v1"), mode: 0o600, want: "upstream o: its api_key is sent in clear to 10.0.0.7; use https, unless the network is yours alone"},
		{name: "http to loopback", config: clear("http://127.0.0.1:8000/v1")},
		{name: "http to localhost", config: clear("http://localhost:8000/v1")},
		{name: "http without a key", config: strings.Replace(clear("http://vllm/v1"), "${K}", "", 1)},
	} {
		fsys := fstest.MapFS{
			"llmgov.yaml":    &fstest.MapFile{Data: []byte(c.config), Mode: c.mode},
			"tenants/a.yaml": &fstest.MapFile{Data: []byte(goodPolicy), Mode: 0o644},
		}
		s, err := LoadFS(fsys, "llmgov.yaml", Options{Env: []string{"K=sk-k", "T=a-token-of-enough-characters", "P=pw"}})
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if runtime.GOOS == "windows" && c.mode == 0o644 {
			continue
		}
		if got := strings.Join(s.Cautions(), "; and "); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}
