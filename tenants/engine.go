package tenants

import (
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/llmgov/llmgov/internal/lib/strictyaml"
)

// Engine says how to read the load of an upstream's own server from its metrics. The zero value says that they are not read.
type Engine struct {
	// Kind is the server: one of EngineKinds.
	Kind string
	// URL is where its metrics are. "" becomes /metrics at the BaseURL, without that one's /v1.
	URL string
	// SendKey says that the upstream's APIKey is sent there, too.
	SendKey bool
	// KVCachePPM is the part of its KV cache that is to be used at most, in millionths. 0 becomes 0.95.
	KVCachePPM int64
	// Metrics are the names of a generic server's gauges.
	Metrics EngineMetrics
}

// EngineMetrics are the names of the gauges of a server's load; of a generic server at least one of Waiting, KVCache and MaxRunning.
type EngineMetrics struct{ Running, Waiting, KVCache, MaxRunning string }

// EngineGeneric is a server whose metrics the config names.
const EngineGeneric = "generic"

// EngineKinds are the servers whose metrics can be read, as files name them.
var EngineKinds = []string{"vllm", "sglang", "tgi", "llamacpp", EngineGeneric}

var engineKinds = words[string]{"a kind of server", EngineKinds}

const (
	defaultKVCachePPM = 950_000
	maxKVCachePPM     = 1_000_000
)

// metricPattern matches names of metrics.
const metricPattern = `^[a-zA-Z_:][a-zA-Z0-9_:]*$`

var metricName = regexp.MustCompile(metricPattern)

var engineShape = shape[Engine]{
	Fields: []field[Engine]{
		{
			Name: "kind", About: "The server. Of a generic one metrics names what to read.", Kind: engineKinds.kind(),
			Read: func(v value, e *Engine) { e.Kind = engineKinds.read(v, strictyaml.Unreadable) }, Need: "write one of " + strings.Join(EngineKinds, ", "),
		},
		{
			Name: "url", About: "Where its metrics are; by default /metrics beside the /v1 of base_url.", Kind: strictyaml.StringKind(`^[hH][tT][tT][pP][sS]?://[^/?#@]+(/[^#]*)?$`),
			Read: func(v value, e *Engine) { e.URL = readMetricsURL(v) },
		},
		{
			Name: "send_key", About: "Whether the upstream's api_key is sent there, too.", Kind: func() schema { return strictyaml.BoolKind() },
			Read: func(v value, e *Engine) { e.SendKey = v.Bool() }, Start: func(e *Engine) any { return e.SendKey },
		},
		strictyaml.DecimalField("kv_cache", "The part of its KV cache above which an adaptive limit falls.",
			strictyaml.Decimals{Places: 6, Least: 1, Most: maxKVCachePPM, Fallback: defaultKVCachePPM}, func(e *Engine) *int64 { return &e.KVCachePPM }),
		{
			Name: "metrics", About: "The names of a generic server's gauges.", Kind: func() schema { return engineMetricsShape.Schema(nil) },
			Read: func(v value, e *Engine) { engineMetricsShape.Read(v, &e.Metrics) },
		},
	},
	Short: "kind",
}

var engineMetricsShape = shape[EngineMetrics]{
	Fields: []field[EngineMetrics]{
		metricField("running", "Calls that run.", func(m *EngineMetrics) *string { return &m.Running }),
		metricField("waiting", "Calls that wait.", func(m *EngineMetrics) *string { return &m.Waiting }),
		metricField("kv_cache", "The part of the KV cache in use, 0 to 1.", func(m *EngineMetrics) *string { return &m.KVCache }),
		metricField("max_running", "Calls that run at once at most.", func(m *EngineMetrics) *string { return &m.MaxRunning }),
	},
}

func metricField(key, about string, at func(*EngineMetrics) *string) field[EngineMetrics] {
	return field[EngineMetrics]{
		Name: key, About: about, Kind: strictyaml.StringKind(metricPattern),
		Read: func(v value, m *EngineMetrics) {
			text, ok := v.Scalar()
			if !ok {
				return
			}
			if !metricName.MatchString(text) {
				v.Problem("%s is no name of a metric; write letters, digits, _ and :, without labels", v.Say(text))
				text = strictyaml.Unreadable // it is not missing
			}
			*at(m) = text
		},
	}
}

var engineField = field[Upstream]{
	Name: "engine", About: "How to read the load of a server of your own from its metrics, by which adaptive limits go beside latency.",
	Kind: func() schema { return engineShape.Schema(&Engine{KVCachePPM: defaultKVCachePPM}) },
	Read: func(v value, u *Upstream) { u.Engine = readEngine(v) },
}

func readEngine(v value) Engine {
	e := Engine{KVCachePPM: defaultKVCachePPM}
	engineShape.Read(v, &e)
	if e.Kind == "" {
		return Engine{}
	}
	if complaint := e.complain(); complaint != "" && e.Kind != strictyaml.Unreadable {
		v.Report.At(strictyaml.Child(v.Path, "metrics"), "%s", complaint)
	}
	return e
}

// complain is the mistake in which metrics are named.
func (e *Engine) complain() string {
	m := e.Metrics
	switch {
	case e.Kind != EngineGeneric && m != EngineMetrics{}:
		return "are those of kind generic; the names of " + e.Kind + " are known, so remove them"
	case e.Kind == EngineGeneric && m.Waiting == "" && m.KVCache == "" && m.MaxRunning == "":
		return "do not say when a generic server is full; name at least one of waiting, kv_cache and max_running"
	}
	return ""
}

func readMetricsURL(v value) string {
	text, ok := v.Scalar()
	if !ok {
		return ""
	}
	if complaint := checkMetricsURL(text); complaint != "" {
		v.Problem("value (not shown) %s", complaint) // a password may be in it
		return ""
	}
	return text
}

// checkMetricsURL complains about an address at which no metrics can be.
func checkMetricsURL(text string) string {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return "is not a URL; write one such as http://10.0.0.5:8000/metrics"
	case u.User != nil:
		return "holds a user or password; use send_key"
	case strings.Contains(text, "#"):
		return "has a fragment; remove # and what follows"
	}
	return checkPort(u)
}

// idleEngines describes the servers whose load no limit goes by.
func (c *compiler) idleEngines() (list []string) {
	decides := map[string]bool{}
	for _, p := range c.cfg.Pools {
		for _, u := range p.Upstreams {
			decides[u.Name] = decides[u.Name] || p.Adapts()
		}
	}
	for _, u := range c.cfg.Upstreams {
		if u.Engine.Kind != "" && !decides[u.Name] {
			idle := c.r.Describe(strictyaml.Child(strictyaml.Child("upstreams", u.Name), "engine"),
				"the server's load is shown, but decides nothing, because no pool of the upstream has an adaptive limit; "+
					"write concurrency: {adaptive: gradient} in one, or remove engine")
			list = append(list, idle.String())
		}
	}
	return list
}

// verifyEngine holds an Engine made in code to the rules of files.
func verifyEngine(r *report, path string, e *Engine) {
	if *e == (Engine{}) {
		return
	}
	engineKinds.verify(r, strictyaml.Child(path, "kind"), e.Kind)
	if complaint := e.complain(); complaint != "" && slices.Contains(EngineKinds, e.Kind) {
		r.At(strictyaml.Child(path, "metrics"), "%s", complaint)
	}
	if complaint := checkMetricsURL(e.URL); complaint != "" && e.URL != "" {
		r.At(strictyaml.Child(path, "url"), "value (not shown) %s", complaint)
	}
	if e.KVCachePPM < 0 || e.KVCachePPM > maxKVCachePPM {
		r.At(strictyaml.Child(path, "kv_cache"), "%d millionths are out of range; use 0 to %d", e.KVCachePPM, maxKVCachePPM)
	}
	for _, name := range []string{e.Metrics.Running, e.Metrics.Waiting, e.Metrics.KVCache, e.Metrics.MaxRunning} {
		if name != "" && !metricName.MatchString(name) {
			r.At(strictyaml.Child(path, "metrics"), "%s is no name of a metric", strictyaml.Show(name))
		}
	}
}

// fill puts defaults where an Engine that is set says nothing.
func (e *Engine) fill(base string) {
	if e.Kind == "" {
		return
	}
	if e.KVCachePPM == 0 {
		e.KVCachePPM = defaultKVCachePPM
	}
	if e.URL == "" {
		path, _, _ := strings.Cut(base, "?")
		e.URL = strings.TrimSuffix(path, "/v1") + "/metrics"
	}
}
