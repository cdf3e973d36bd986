package tenants

import (
	"io/fs"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"
)

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
		{name: "empty variables", config: strings.NewReplacer("${K}", "${EMPTY}", "${T}", "${EMPTY}").Replace(variables), mode: 0o644, want: "admin.token: ${EMPTY} is empty, so whoever can log in to this machine may operate the gateway; " +
			"and upstreams.o.api_key: ${EMPTY} is empty, so calls go there without a key"},
		{name: "empty unless set", config: strings.NewReplacer("${K}", "${EMPTY:-}", "${T}", "${NONE:-}").Replace(variables), mode: 0o644},
		{name: "http without a key", config: strings.Replace(clear("http://vllm/v1"), "${K}", "", 1)},
	} {
		fsys := fstest.MapFS{
			"llmgov.yaml":    &fstest.MapFile{Data: []byte(c.config), Mode: c.mode},
			"tenants/a.yaml": &fstest.MapFile{Data: []byte(goodPolicy), Mode: 0o644},
		}
		s, err := LoadFS(fsys, "llmgov.yaml", Options{Env: []string{"K=sk-k", "T=a-token-of-enough-characters", "P=pw", "EMPTY="}})
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
