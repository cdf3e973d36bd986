package tenants

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"
	_ "time/tzdata" // the test's zones, wherever it runs

	"github.com/google/go-cmp/cmp"

	"github.com/llmgov/llmgov/governor/terms"
	"github.com/llmgov/llmgov/internal/lib/strictyaml"
	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/tenants/keyfile"
)

const fullConfig = `
listen: "127.0.0.1:8080"
h2c: true
healthz: true
lean_http: false
max_connections: 500
admin: {listen: "[::1]:9090", token: "${TOKEN:-t0k-of-sixteen-characters}", unready_on_store_loss: always}
admission: {listen: "127.0.0.1:9091", token: "a-token-of-sixteen-characters", tenant: header x-team, descriptors: tenant=team, most_open: 30}
node: n1
region: eu
store: memory
upstreams:
  openai: {base_url: https://api.openai.com/v1/, api_key: "${OPENAI_API_KEY}", kind: openai}
  local:  {base_url: http://localhost:11434/v1}
pools:
  gpt-4.1:
    models: ["gpt-4.1", "gpt-4.1-**-x"]
    upstream: openai
    tpm: ${TPM}
    rpm: 5_000
    concurrency: {max: 64, interactive_reserve: 8, soft_cap: 0.25}
    ticket_wait: 0s
    budgets: [{tokens: 5_000_000, per: day}, {usd: 12.34, per: month}]
    accounting: production
    token_weights: {cached_input: 0.25, audio: 2.5}
    default_max_output: 2048
    headroom: 0.025
    burst: 0s
    max_queue: 7
  org/small: {models: [llama, "*"], upstream: local, concurrency: 2}
default_pool: org/small
state_dir: "${STATE:-/var/lib/llmgov}"
timezone: Europe/Berlin
prices:
  "gpt-4.1*": {input: 2.5, cached_input: 1.25, output: 10}
  "*":        {input: 0, output: 0.000001}
timeouts: {read_header: 1s, upstream_header: 2m, upstream_answer: 7m, stream_idle: 90s, drain: 0s}
max_body: 512KiB
body_memory: {process: 3MiB, tenant: 1MiB}
decision_log: {path: log/d.jsonl, max_size: 1GB, keep: 0}
policies: [policies/*.yaml, /common/base.yaml]
max_tenants: 300
metrics: {tenants: 30, idle: 5m}
`

const fullPolicy = `
tenants:
  acme:
    tier: pro
    weight: 6
    rpm: 6
    keys: ["` + key1 + `", "` + key2 + `"]
    models: ["gpt-4*", llama]
    default_pool: gpt-4.1
    credit: 5s
    budgets: [{requests: 9, per: hour}, {tokens: 8, per: week}, {usd: 0.01, per: week}]
`

const (
	key1 = "sha256:1111111111111111111111111111111111111111111111111111111111111111"
	key2 = "sha256:2222222222222222222222222222222222222222222222222222222222222222"
	key3 = "sha256:3333333333333333333333333333333333333333333333333333333333333333"
)

func hash(t *testing.T, text string) KeyHash {
	t.Helper()
	h, ok := keyfile.ParseHash(text)
	if !ok {
		t.Fatalf("%s is no key hash", text)
	}
	return h
}

func files(named map[string]string) fstest.MapFS {
	fsys := fstest.MapFS{}
	for name, text := range named {
		fsys[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return fsys
}

// TestLoad_Everything reads every supported key, with tiers in another file than their tenants.
func TestLoad_Everything(t *testing.T) {
	fsys := files(map[string]string{
		"etc/llmgov.yaml":             fullConfig,
		"etc/policies/acme.yaml":      fullPolicy,
		"etc/policies/.#acme.yaml":    "an editor's lock",
		"etc/policies/acme.yaml.orig": "a left-over",
		"common/base.yaml": "tiers: {pro: {weight: 0.5, rpm: 60, tpm: 7, itpm: 5, otpm: 4, concurrency: 3, " +
			"max_wait: 1500ms, max_output_tokens: 99, priority: background, priority_by: {header: x-Class, main: 9, side job: 4, title: background}, floor_tpm: 7, credit: 60s, " +
			"budgets: [{usd: 1, per: day}]}}\ntenants: {solo: {keys: [" + key3 + "]}}\n",
	})
	s := testkit.Must(LoadFS(fsys, "etc/llmgov.yaml", Options{Env: []string{"OPENAI_API_KEY=sk-$x", "TPM=300000"}}))(t)
	one := TokenWeights{Input: 1, CachedInput: 1, Output: 1, Reasoning: 1, Audio: 1}
	wantConfig := Config{
		Listen: "127.0.0.1:8080", H2C: true, Healthz: true, MaxConnections: 500, MaxTenants: 300, Metrics: Metrics{30, 5 * time.Minute}, Admin: Admin{Listen: "[::1]:9090", Token: "t0k-of-sixteen-characters", UnreadyOnStoreLoss: UnreadyAlways}, Admission: Admission{Listen: "127.0.0.1:9091", Token: "a-token-of-sixteen-characters", Tenant: "header x-team", Descriptors: "tenant=team", MostOpen: 30}, Node: "n1", Region: "eu", Store: "memory",
		DefaultPool: "org/small", StateDir: "/var/lib/llmgov", Timezone: "Europe/Berlin",
		Timeouts: Timeouts{time.Second, 2 * time.Minute, 7 * time.Minute, 90 * time.Second, 0},
		MaxBody:  512 << 10, BodyMemory: BodyMemory{3 << 20, 1 << 20}, DecisionLog: DecisionLog{"log/d.jsonl", 1_000_000_000, 0}, Policies: []string{"policies/*.yaml", "/common/base.yaml"},
		Upstreams: []Upstream{
			{Name: "local", BaseURL: "http://localhost:11434/v1", Kind: "openai"},
			{Name: "openai", BaseURL: "https://api.openai.com/v1", APIKey: "sk-$x", Kind: "openai"},
		},
		Pools: []Pool{{
			Pool: terms.Pool{Name: "gpt-4.1", TPM: 300000, RPM: 5000, Concurrency: 64, InteractiveReserve: 8, SoftCapPPM: 250_000, Accounting: Production, Weights: TokenWeights{Input: 1, CachedInput: 0.25, Output: 1, Reasoning: 1, Audio: 2.5}, HeadroomPPM: 25000, Burst: 0, MaxQueue: 7, Budgets: []Budget{{Unit: Tokens, Limit: 5_000_000, Per: Day}, {Unit: MicroUSD, Limit: 12_340_000, Per: Month}}}, Index: 0, Models: []string{"gpt-4.1", "gpt-4.1-*-x"}, Upstreams: []PoolUpstream{{Name: "openai", Weight: 1}},
			DefaultMaxOutput: 2048, BurstSet: true, Affinity: AffinitySession,
		}, {
			Pool: terms.Pool{Name: "org/small", Concurrency: 2, Weights: one, HeadroomPPM: 10000, Burst: 10 * time.Second, TicketWait: 10 * time.Second, MaxQueue: 10000}, Index: 1, Models: []string{"llama", "*"}, Upstreams: []PoolUpstream{{Name: "local", Weight: 1}}, DefaultMaxOutput: 4096, Affinity: AffinitySession,
		}},
		Prices: []ModelPrice{
			{"*", Price{Output: 1, AudioOutput: 1, ImageOutput: 1}},
			{"gpt-4.1*", Price{
				Input: 2_500_000, CachedInput: 1_250_000, CacheWrite: 2_500_000, CacheWriteHour: 2_500_000, Output: 10_000_000,
				AudioInput: 2_500_000, AudioOutput: 10_000_000, ImageInput: 2_500_000, ImageOutput: 10_000_000,
			}},
		},
	}
	if diff := cmp.Diff(wantConfig, *s.Config()); diff != "" {
		t.Errorf("config (-want +got):\n%s", diff)
	}
	wantTenants := []Tenant{{
		Name: "acme", Tier: "pro", Parent: -1, Index: 0, Order: 1, Routes: DefaultRoutes, Keys: []Key{{Hash: hash(t, key1)}, {Hash: hash(t, key2)}},
		Models: []string{"gpt-4*", "llama"}, DefaultPool: "gpt-4.1", Weight: 6, Limits: terms.Limits{RPM: 6, TPM: 7, ITPM: 5, OTPM: 4, Concurrency: 3}, MaxWait: 1500 * time.Millisecond, MaxOutputTokens: 99, Background: true,
		PriorityBy: &PriorityBy{Header: "X-Class", Below: map[string]int64{"main": 0, "side job": 5, "title": 10}},
		FloorTPM:   7, Credit: 5 * time.Second, Budgets: []Budget{{Unit: Requests, Limit: 9, Per: Hour}, {Unit: Tokens, Limit: 8, Per: Week}, {Unit: MicroUSD, Limit: 10_000, Per: Week}},
		Source: "etc/policies/acme.yaml:3:3",
	}, {
		Name: "solo", Parent: -1, Index: 1, Routes: DefaultRoutes, Keys: []Key{{Hash: hash(t, key3)}}, Models: []string{"*"}, DefaultPool: "org/small",
		Weight: 1, Source: "/common/base.yaml:2:11",
	}}
	if diff := cmp.Diff(wantTenants, s.Tenants()); diff != "" {
		t.Errorf("tenants (-want +got):\n%s", diff)
	}
}

// TestLoad_Precedence checks file < environment < flag, each over the default, one setting at a time.
func TestLoad_Precedence(t *testing.T) {
	region := func(inFile, inEnv, inFlag string) string {
		t.Helper()
		sections := map[string]string{"llmgov.yaml": goodConfig + inFile, "env": inEnv, "flags": inFlag}
		s := testkit.Must(loadSections(sections))(t)
		return s.Config().Region
	}
	file := "region: file\n"
	env := "LLMGOV_REGION=env"
	flag := "region=flag\n"
	for _, c := range []struct{ file, env, flag, want string }{
		{"", "", "", "local"},
		{file, "", "", "file"},
		{"", env, "", "env"},
		{file, env, "", "env"},
		{file, "", flag, "flag"},
		{file, env, flag, "flag"},
		{file, "LLMGOV_REGION=", "region=\n", "file"}, // empty is not given
	} {
		if got := region(c.file, c.env, c.flag); got != c.want {
			t.Errorf("region of file %q, environment %q, flag %q = %q, want %q", c.file, c.env, c.flag, got, c.want)
		}
	}
}

// TestLoad_EveryEnvironmentName sets every setting by its variable.
func TestLoad_EveryEnvironmentName(t *testing.T) {
	s := testkit.Must(loadSections(map[string]string{"env": strings.Join([]string{
		"LLMGOV_LISTEN=:1", "LLMGOV_ADMIN_LISTEN=:2", "LLMGOV_ADMIN_TOKEN=t23456789012345x", "LLMGOV_H2C=true", "LLMGOV_HEALTHZ=true", "LLMGOV_LEAN_HTTP=false", "LLMGOV_MAX_CONNECTIONS=99", "LLMGOV_MAX_TENANTS=100", "LLMGOV_METRICS_TENANTS=10", "LLMGOV_METRICS_IDLE=2m", "LLMGOV_NODE=n", "LLMGOV_REGION=r",
		"LLMGOV_STORE=memory", "LLMGOV_DEFAULT_POOL=main", "LLMGOV_TIMEOUTS_READ_HEADER=1s",
		"LLMGOV_TIMEOUTS_UPSTREAM_HEADER=2s", "LLMGOV_TIMEOUTS_STREAM_IDLE=3s", "LLMGOV_TIMEOUTS_DRAIN=4s",
		"LLMGOV_STATE_DIR=/state", "LLMGOV_KEYS_FILE=k.yaml", "LLMGOV_TIMEZONE=Asia/Tokyo", "LLMGOV_MAX_BODY=1MiB", "LLMGOV_BODY_MEMORY_PROCESS=8MiB", "LLMGOV_BODY_MEMORY_TENANT=2MiB",
		"LLMGOV_DECISION_LOG_PATH=d.jsonl", "LLMGOV_DECISION_LOG_MAX_SIZE=2KiB", "LLMGOV_DECISION_LOG_KEEP=7", "LLMGOV_POLICIES=tenants/a.yaml",
		"LLMGOV_SERVICE_HOST=10.0.0.1", "LLMGOV_PORT=tcp://10.0.0.1:80", "LLMGOV_POOLS_MAIN_TPM=9", "LLMGOV_ADMIN=x",
	}, "\n")}))(t)
	want := DefaultConfig()
	want.Listen = ":1"
	want.Admin = Admin{Listen: ":2", Token: "t23456789012345x", UnreadyOnStoreLoss: UnreadyAlone}
	want.Node = "n"
	want.Region = "r"
	want.DefaultPool = "main"
	want.Timeouts = Timeouts{time.Second, 2 * time.Second, 10 * time.Minute, 3 * time.Second, 4 * time.Second}
	want.StateDir = "/state"
	want.KeysFile = "k.yaml"
	want.Timezone = "Asia/Tokyo"
	want.DecisionLog = DecisionLog{"d.jsonl", 2 << 10, 7}
	want.H2C = true
	want.LeanHTTP = false
	want.Healthz = true
	want.MaxConnections = 99
	want.MaxTenants = 100
	want.Metrics = Metrics{10, 2 * time.Minute}
	want.BodyMemory = BodyMemory{8 << 20, 2 << 20}
	want.MaxBody = 1 << 20
	want.Policies = []string{"tenants/a.yaml"}
	got := *s.Config()
	got.Pools = nil
	got.Upstreams = nil
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("config (-want +got):\n%s", diff)
	}
}

// TestLoad_Disk checks the names that messages give files, for each way to name the config.
func TestLoad_Disk(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		full := filepath.Join(dir, name)
		testkit.OK(t, os.MkdirAll(filepath.Dir(full), 0o755))
		testkit.OK(t, os.WriteFile(full, []byte(text), 0o644))
	}
	write("etc/llmgov.yaml", goodConfig+"policies: [../pol/*.yaml, "+filepath.Join(dir, "abs/b.yaml")+"]\n")
	write("pol/a.yaml", "tenants: {acme: {keys: [x]}}\n")
	write("abs/b.yaml", "tenants: {}\n")
	t.Chdir(filepath.Join(dir, "etc"))
	for name, want := range map[string]string{
		"llmgov.yaml":                            "../pol/a.yaml:1:25: ",
		"../etc/llmgov.yaml":                     "../pol/a.yaml:1:25: ",
		"./llmgov.yaml":                          "../pol/a.yaml:1:25: ",
		filepath.Join(dir, "etc", "llmgov.yaml"): filepath.Join(dir, "pol/a.yaml") + ":1:25: ",
	} {
		_, err := Load(name, Options{})
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("Load(%s): %v; want a problem at %s", name, err, want)
		}
	}
	write("abs/b.yaml", "x: 1\n")
	if _, err := Load("llmgov.yaml", Options{}); err == nil || !strings.Contains(err.Error(), filepath.Join(dir, "abs/b.yaml")+":1:1: ") {
		t.Errorf("problem in a file of an absolute glob: %v; want it named so", err)
	}
	write("abs/b.yaml", "tenants: {}\n")
	write("pol/a.yaml", goodPolicy)
	if _, err := Load("llmgov.yaml", Options{}); err != nil {
		t.Errorf("Load of mended files: %v", err)
	}
	_, err := Load("absent.yaml", Options{})
	if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "absent.yaml") || !strings.Contains(err.Error(), "-c") {
		t.Errorf("Load of an absent file: %v; want its name and what to do", err)
	}
}

// TestLoad_FileLimits checks files too large to read, unreadable ones, and the largest bombs YAML allows.
func TestLoad_FileLimits(t *testing.T) {
	loadPolicy := func(policy *fstest.MapFile) error {
		fsys := files(map[string]string{"llmgov.yaml": goodConfig})
		fsys["tenants/a.yaml"] = policy
		_, err := LoadFS(fsys, "llmgov.yaml", Options{})
		return err
	}
	large := []byte(goodPolicy + strings.Repeat("#\n", strictyaml.MaxBytes/2))
	if err := loadPolicy(&fstest.MapFile{Data: large}); err == nil || !strings.Contains(err.Error(), "file is larger than the 4 MiB that a policy file may have") {
		t.Errorf("file over 4 MiB: %v", err)
	}
	if err := loadPolicy(&fstest.MapFile{Mode: fs.ModeDir}); err == nil || !strings.Contains(err.Error(), "tenants/a.yaml: cannot be read: it is a directory") {
		t.Errorf("directory: %v", err)
	}
	deep := []byte(strings.Repeat("[", 100_000))
	if err := loadPolicy(&fstest.MapFile{Data: deep}); err == nil || !strings.Contains(err.Error(), "exceeded max depth") {
		t.Errorf("deep nesting: %v", err)
	}
	bomb := "a0: &a0 [" + strings.Repeat("x,", 50) + "]\n"
	for i := 1; i < 50; i++ {
		prev := string(rune('A' + i - 1))
		this := string(rune('A' + i))
		bomb += this + ": &" + this + " [" + strings.Repeat("*"+prev+",", 50) + "]\n"
	}
	bomb = strings.Replace(bomb, "a0: &a0", "A: &A", 1)
	if _, ok := errors.AsType[Problems](loadPolicy(&fstest.MapFile{Data: []byte(bomb)})); !ok {
		t.Error("alias bomb: want problems")
	}
}

// What is wrong elsewhere hides nobody's gateway; what is wrong in admin is told.
func TestLoadAdmin(t *testing.T) {
	for _, c := range []struct {
		name, config string
		want         Admin
		wrong        string
	}{
		{name: "defaults", config: "pools: {}", want: DefaultConfig().Admin},
		{name: "all else is wrong", config: "admin: {listen: \"10.0.0.1:91\", token: \"${T}\"}\nupstreams: {a: {api_key: \"${NO}\"}}\nzzz: 1\n", want: Admin{Listen: "10.0.0.1:91", Token: "a-secret-of-this-gateway", UnreadyOnStoreLoss: UnreadyAlone}},
		{name: "the token's variable", config: "admin: {token: \"${NO}\"}", wrong: "NO is not set"},
		{name: "no mapping", config: "admin: 5", wrong: "admin: is a"},
		{name: "no yaml", config: "a: [", wrong: ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "llmgov.yaml")
			testkit.OK(t, os.WriteFile(file, []byte(c.config), 0o600))
			got, err := LoadAdmin(file, Options{Env: []string{"T=a-secret-of-this-gateway"}})
			if !reflect.DeepEqual(c.want, Admin{}) {
				if err != nil || !reflect.DeepEqual(got, c.want) {
					t.Errorf("%+v, %v; want %+v", got, err, c.want)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.wrong) {
				t.Errorf("error %v; want one with %q", err, c.wrong)
			}
		})
	}
	if _, err := LoadAdmin(filepath.Join(t.TempDir(), "no.yaml"), Options{}); err == nil {
		t.Error("a config that is not there was read")
	}
}

// TestStoreLoss: what a file says of a store, and of its loss, is what the pool has, and is part of
// the policy's hash.
func TestStoreLoss(t *testing.T) {
	hashes := map[string]string{}
	for text, want := range map[string]Pool{
		"":                                       {},
		", on_store_loss: open":                  {Pool: terms.Pool{OnLoss: terms.LossOpen}},
		", on_store_loss: {local: 0.125}":        {Pool: terms.Pool{OnLoss: terms.LossLocal, LocalPPM: 125_000}},
		", on_store_loss: {local: 0.5}":          {Pool: terms.Pool{OnLoss: terms.LossLocal, LocalPPM: 500_000}},
		", on_store_loss: open, expect_nodes: 7": {Pool: terms.Pool{OnLoss: terms.LossOpen, ExpectNodes: 7}},
		", tenant_limits: strict":                {Pool: terms.Pool{TenantLimits: terms.LimitsStrict}},
		", tenant_limits: cached_deny":           {Pool: terms.Pool{TenantLimits: terms.LimitsCachedDeny}},
	} {
		s := testkit.Must(loadSections(map[string]string{"llmgov.yaml": "upstreams: {u: {base_url: \"http://h\"}}\npools: {main: {models: [gpt-4o], tpm: 1000" + text + "}}\nstore: redis://h:6379\n"}))(t)
		p := s.Pools()[0]
		if p.OnLoss != want.OnLoss || p.LocalPPM != want.LocalPPM || p.ExpectNodes != want.ExpectNodes || p.TenantLimits != want.TenantLimits {
			t.Errorf("%q is %+v, %d nodes, %s", text, p.OnLoss, p.ExpectNodes, p.TenantLimits)
		}
		if other, taken := hashes[s.Hash()]; taken {
			t.Errorf("%q and %q have one hash", text, other)
		}
		hashes[s.Hash()] = text
	}
	for _, bad := range []terms.Pool{{LocalPPM: 1}, {OnLoss: 9}, {OnLoss: terms.LossLocal}, {OnLoss: terms.LossOpen, LocalPPM: 5000}, {OnLoss: terms.LossLocal, LocalPPM: 900_001}} {
		if (&Pool{Pool: bad}).complainStoreLoss() == "" {
			t.Errorf("%+v is good", bad)
		}
	}
}

// changing is a file system in which something happens when a file is opened.
type changing struct {
	fs.FS
	on     string
	happen func()
}

func (c *changing) Open(name string) (fs.File, error) {
	if happen := c.happen; name == c.on && happen != nil {
		c.happen = nil
		happen()
	}
	return c.FS.Open(name)
}

func (c *changing) Stat(name string) (fs.FileInfo, error) { return fs.Stat(c.FS, name) }

// TestLoad_TiersMeanwhile: a file that has got tiers between the look at it and its reading is none of those that are read side by side.
func TestLoad_TiersMeanwhile(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) { testkit.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600)) }
	testkit.OK(t, os.Mkdir(filepath.Join(dir, "tenants"), 0o700))
	write("llmgov.yaml", goodConfig)
	write("tenants/a.yaml", "tenants: {acme: {keys: [], tier: gold}}")
	write("tenants/z.yaml", "tiers: {gold: {rpm: 1}}")
	files := &changing{FS: os.DirFS(dir)}
	later := func() time.Time { return time.Now().Add(2 * restless) }
	l := &loader{fsys: files, config: "llmgov.yaml", shown: "llmgov.yaml", more: map[string]string{}, clock: later}
	testkit.Must(load(l))(t)

	files.on = "tenants/z.yaml"
	files.happen = func() {
		write("tenants/a.yaml", "tiers: {silver: {rpm: 30}}\ntenants: {acme: {keys: [], tier: silver}}")
	}
	write("tenants/z.yaml", "tiers: {gold: {rpm: 20}}")
	for range 2 {
		if got := testkit.Must(load(l))(t).Tenants()[0].RPM; got != 30 {
			t.Errorf("rpm %d, want 30", got)
		}
		write("tenants/b.yaml", "tenants: {beta: {keys: [], tier: silver}}")
	}
}

// TestPriorityBy_Of: the header that a policy names lowers the priority of a call by its value, and no other says anything of it.
func TestPriorityBy_Of(t *testing.T) {
	by := &PriorityBy{Header: "X-Class", Below: map[string]int64{"main": 0, "side job": 5, "title": 10}}
	for _, c := range []struct {
		by      *PriorityBy
		headers map[string][]string
		want    int64
	}{
		{by, nil, 0},
		{by, map[string][]string{"X-Class": {"main"}}, 0},
		{by, map[string][]string{"X-Class": {"side job"}}, 5},
		{by, map[string][]string{"X-Class": {"title"}}, 10},
		{by, map[string][]string{"X-Class": {"main", "side job"}}, 5},
		{by, map[string][]string{"X-Class": {"Title"}, "X-Other": {"title"}}, 0},
		{nil, map[string][]string{"X-Class": {"title"}}, 0},
	} {
		if got := c.by.Of(c.headers); got != c.want {
			t.Errorf("%v is %d below the highest priority, want %d", c.headers, got, c.want)
		}
	}
	if got := by.String(); got != "x-class, main interactive, side job 4, title background" {
		t.Errorf("it is shown as %q", got)
	}
}

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
		{"https://vllm", "{ca: empty.pem}", `etc/llmgov.yaml:2:50: upstreams.local.tls.ca: "empty.pem" is empty`},
		{"https://vllm", "{cert: empty.pem, key: empty.pem}", `upstreams.local.tls.key: "empty.pem" is empty`},
		{"https://vllm", "{cert: llmgov.yaml}", "upstreams.local.tls: cannot be used: cert and key are no pair"},
		{"https://vllm", "{key: llmgov.yaml}", "upstreams.local.tls: cannot be used: cert and key are no pair"},
		{"http://vllm", "{ca: llmgov.yaml}", "etc/llmgov.yaml:2:39: upstreams.local.tls: is for an upstream without TLS"},
		{"https://vllm", `{ca: ""}`, "names no file"},
		{"https://vllm", "{client_ca: a.pem}", `unknown key "client_ca"`},
	} {
		config := "upstreams:\n  local: {base_url: \"" + c.address + "/v1\", tls: " + c.tls + "}\npools:\n  main: {models: [gpt-4o], tpm: 1000}\n"
		_, err := LoadFS(files(map[string]string{"etc/llmgov.yaml": config, "etc/tenants/all.yaml": goodPolicy, "etc/empty.pem": " \n"}), "etc/llmgov.yaml", Options{})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s at %s: %v; want %q", c.tls, c.address, err, c.want)
		}
	}
}

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
		"https://api.openai.com":                     "write https://api.openai.com/v1",
		"https://api.groq.com/v1":                    "write https://api.groq.com/openai/v1",
		"https://openrouter.ai/":                     "write https://openrouter.ai/api/v1",
		"https://openrouter.ai/api/v1":               "",
		"https://api.mistral.ai/v1":                  "",
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

// A proxy that others on the machine can pass for is told of, with its place.
func TestCautions_ProxyHere(t *testing.T) {
	for from, told := range map[string]bool{
		"127.0.0.1/32": true, "127.1.0.0/16": true, "0.0.0.0/0": true, "::1/128": true, "::/0": true,
		"10.1.0.0/16": false, "128.0.0.0/8": false, "fd00::/8": false,
	} {
		for _, tls := range []string{"", "\n  tls: {cert: c.pem, key: k.pem, client_ca: ca.pem}"} {
			s := testkit.Must(loadSections(map[string]string{"llmgov.yaml": goodConfig + `admin:
  proxy: {from: ["10.9.0.0/16", "` + from + `"]}
  roles: [{name: a, role: view, group: g}]
  token: 0123456789abcdef0123` + tls + "\n"}))(t)
			said := strings.Join(s.Cautions(), "\n")
			if want := told && tls == ""; (said != "") != want || want && !strings.HasPrefix(said, "llmgov.yaml:6:33: admin.proxy.from[1]: "+from+" has loopback addresses") {
				t.Errorf("from %s%s: %q, want a caution: %t", from, tls, said, want)
			}
		}
	}
}

// An upstream that may raise limits is told of if none of its pools has one that it moves.
func TestCautions_FollowsNothing(t *testing.T) {
	for pools, tells := range map[string]bool{
		"{p: {models: [m], upstream: u, tpm: 9}}":                                                            true,
		"{p: {models: [m], upstream: u, tpm: {min: 5, max: 9, adaptive: throttles}}}":                        true,
		"{p: {models: [m], upstream: u, tpm: {min: 5, max: 9}}}":                                             false,
		"{p: {models: [m], upstream: u, rpm: 9}, q: {models: [n], upstream: u, otpm: {min: 5, max: 9}}}":     false,
		"{p: {models: [m], upstream: u, rpm: 9}, q: {models: [n], upstream: w, otpm: {min: 5, max: 9}}}":     true,
		"{p: {models: [m], upstreams: [{name: u}, {name: w}], rpm: {min: 5, max: 9}, tpm: 6, ramp: 2x/min}}": false,
	} {
		s := testkit.Must(loadSections(map[string]string{
			"llmgov.yaml": "upstreams:\n  u: {base_url: \"http://127.0.0.1/v1\", heed: follow}\n  w: {base_url: \"http://127.0.0.2/v1\", heed: follow}\npools: " + pools + "\n",
		}))(t)
		said := strings.Join(s.Cautions(), "\n")
		if strings.Contains(said, "llmgov.yaml:2:46: upstreams.u.heed: follow acts as lower") != tells {
			t.Errorf("of %s is said %q", pools, said)
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

// TestLoad_ShortForms: a value that says enough alone stands for the mapping with it.
func TestLoad_ShortForms(t *testing.T) {
	hash := strings.Repeat("1", 64)
	for _, c := range []struct{ place, short, long string }{
		{"pools: {p: {models: [m], tpm: 9, upstreams: %s}}", "[a, {name: b, weight: 2}]", "[{name: a}, {name: b, weight: 2}]"},
		{"upstreams: {a: %s, b: {base_url: http://b}}", "https://a/v1", "{base_url: https://a/v1}"},
		{"upstreams: {a: {base_url: https://a/v1, engine: %s}, b: {base_url: http://b}}", "vllm", "{kind: vllm}"},
		{"upstreams: {a: {base_url: https://a, kind: anthropic, limits_api: %s}, b: {base_url: http://b}}", `"${KEY}"`, `{key: "${KEY}"}`},
		{"notify: %s", `["${HOOK}", {webhook: "https://h/b", on: [store]}]`, `[{webhook: "${HOOK}"}, {webhook: "https://h/b", on: [store]}]`},
		{"admin: {token: 0123456789abcdef, roles: [{name: r, role: view, group: g}], proxy: %s}", "[10.0.0.0/8]", "{from: [10.0.0.0/8]}"},
		{"tenants: {t: {keys: %s}}", "[sha256:" + hash + "]", "[{hash: sha256:" + hash + "}]"},
		{"tenants: {t: {keys: [], members: %s}}", "body.user", "{by: body.user}"},
		{"tenants: {t: {keys: [], service_tiers: %s}}", "[flex]", "{only: [flex]}"},
	} {
		key, _, _ := strings.Cut(c.place, ":")
		load := func(value string, withoutSecrets bool) *Snapshot {
			parts := map[string]string{
				"upstreams": "upstreams: {a: {base_url: http://a}, b: {base_url: http://b}}",
				"pools":     "pools: {p: {models: [m], tpm: 9, upstreams: [{name: a}, {name: b}]}}",
				"tenants":   goodPolicy,
			}
			parts[key] = fmt.Sprintf(c.place, value)
			fsys := fstest.MapFS{"tenants/a.yaml": {Data: []byte(parts["tenants"])}}
			delete(parts, "tenants")
			fsys["llmgov.yaml"] = &fstest.MapFile{Data: []byte(strings.Join(slices.Collect(maps.Values(parts)), "\n"))}
			opt := Options{Env: []string{"KEY=k", "HOOK=https://h/a"}}
			if withoutSecrets {
				opt = Options{WithoutSecrets: true}
			}
			return testkit.Must(LoadFS(fsys, "llmgov.yaml", opt))(t)
		}
		for _, without := range []bool{false, true} {
			short := load(c.short, without)
			long := load(c.long, without)
			if !reflect.DeepEqual(short.Config(), long.Config()) || !reflect.DeepEqual(short.Tenants(), long.Tenants()) {
				t.Errorf("%s as %s:\n%+v\n%+v\nin full:\n%+v\n%+v", c.place, c.short, short.Config(), short.Tenants(), long.Config(), long.Tenants())
			}
		}
	}
}
