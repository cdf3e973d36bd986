package tenants

import (
	"strings"
	"testing"

	"github.com/llmgov/llmgov/governor/terms"
	"github.com/llmgov/llmgov/internal/test/testkit"
)

// An upstream's engine has a place for its metrics and a bound for its cache, said or not, from a file or from code.
func TestEngine_Defaults(t *testing.T) {
	for base, want := range map[string]string{
		"http://10.0.0.5:8000/v1":   "http://10.0.0.5:8000/metrics",
		"http://10.0.0.5:8000":      "http://10.0.0.5:8000/metrics",
		"https://gpu/big/v1/":       "https://gpu/big/metrics",
		"https://gpu/openai/v1beta": "https://gpu/openai/v1beta/metrics",
	} {
		cfg := DefaultConfig()
		cfg.Upstreams = []Upstream{{Name: "u", BaseURL: base, Engine: Engine{Kind: "vllm"}}}
		cfg.Pools = []Pool{{Pool: terms.Pool{Name: "p", Concurrency: 4}, Models: []string{"m"}}}
		s := testkit.Must(Build(cfg, []Tenant{{Name: "a", Keys: []Key{{Hash: HashKey("sk-a-key-of-some-length-1")}}}}))(t)
		if got := s.Config().Upstreams[0].Engine; got != (Engine{Kind: "vllm", URL: want, KVCachePPM: 950_000}) {
			t.Errorf("%s has the engine %+v", base, got)
		}
	}
}

func TestEngine_MadeInCode(t *testing.T) {
	for want, e := range map[string]Engine{
		`"vlm" is not a kind of server`:       {Kind: "vlm"},
		"are those of kind generic":           {Kind: "tgi", Metrics: EngineMetrics{Waiting: "w"}},
		"do not say when a generic":           {Kind: "generic", Metrics: EngineMetrics{Running: "r"}},
		"is not a URL":                        {Kind: "tgi", URL: "metrics"},
		"holds a user or password":            {Kind: "tgi", URL: "http://a:b@c/metrics"},
		"2000000 millionths are out of range": {Kind: "tgi", KVCachePPM: 2_000_000},
		`"a b" is no name of a metric`:        {Kind: "generic", Metrics: EngineMetrics{Waiting: "a b"}},
		`"" is not a kind of server; use`:     {URL: "http://c/metrics"},
	} {
		cfg := DefaultConfig()
		cfg.Upstreams = []Upstream{{Name: "u", BaseURL: "http://u", Engine: e}}
		_, err := Build(cfg, nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %s", e, err, want)
		}
	}
}

// TestEngine_DecidesNothing: a server whose load is read although no limit goes by it is told of, with its place.
func TestEngine_DecidesNothing(t *testing.T) {
	s := testkit.Must(loadSections(map[string]string{"llmgov.yaml": `upstreams:
  used: {base_url: "http://u/v1", engine: {kind: vllm}}
  idle: {base_url: "http://i/v1", engine: {kind: vllm}}
pools:
  p: {models: [m], upstream: used, concurrency: {adaptive: gradient}}
  q: {models: [n], upstreams: [{name: used}, {name: idle}], concurrency: 4}
`}))(t)
	const want = "llmgov.yaml:3:35: upstreams.idle.engine: the server's load is shown, but decides nothing, because no pool of the upstream " +
		"has an adaptive limit; write concurrency: {adaptive: gradient} in one, or remove engine"
	if said := s.Cautions(); len(said) != 1 || said[0] != want {
		t.Errorf("the cautions are %q, want %q", said, want)
	}
}

// Addresses at which no routes begin are told of, with their places.
func TestCautions_Misplaced(t *testing.T) {
	for address, want := range map[string]string{
		"https://api.openai.com/v1/chat/completions": "ends in /chat/completions, which is a route",
		"http://127.0.0.1:8000/v1/responses/":        "ends in /responses, which is a route",
		"https://api.anthropic.com/v1/messages":      "ends in /messages, which is a route",
		"https://llm.example/v1/v1":                  "ends in /v1/v1; write /v1 once",
		"https://api.openai.com":                     "lacks the /v1",
		"https://api.openai.com/v1":                  "",
		"https://llm.example":                        "",
		"https://llm.example/completions/v1":         "",
	} {
		s := testkit.Must(loadSections(map[string]string{"llmgov.yaml": "upstreams:\n  u: {base_url: \"" + address + "\"}\npools: {p: {models: [m], concurrency: 4}}\n"}))(t)
		said := strings.Join(s.Cautions(), "\n")
		if (said == "") != (want == "") || !strings.Contains(said, want) || want != "" && !strings.HasPrefix(said, "llmgov.yaml:2:17: upstreams.u.base_url: ") {
			t.Errorf("of %s is said %q, want %q", address, said, want)
		}
	}
}

func TestEngine_KeyInClear(t *testing.T) {
	s := testkit.Must(loadSections(map[string]string{"llmgov.yaml": `upstreams: {u: {base_url: "https://u/v1", api_key: k, engine: {kind: vllm, url: "http://10.0.0.5:8000/metrics", send_key: true}}}
pools: {p: {models: [m], concurrency: 4}}
`}))(t)
	if said := strings.Join(s.Cautions(), "\n"); !strings.Contains(said, "sent in clear to 10.0.0.5") || !strings.Contains(said, "for its metrics") {
		t.Errorf("the cautions are %s", said)
	}
}
