package docs

import (
	"fmt"
	"net"
	"net/http"
	"net/mail"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	_ "github.com/llmgov/llmgov/federation/postgres"
	_ "github.com/llmgov/llmgov/federation/redis"
	"github.com/llmgov/llmgov/federation/store"
	"github.com/llmgov/llmgov/internal/test/testkit"
	"github.com/llmgov/llmgov/internal/test/testkit/processtest"
	"github.com/llmgov/llmgov/internal/test/testkit/redistest"
	"github.com/llmgov/llmgov/tenants"
)

const deployFolder = "../../../../docs/deploy/"

// What docs/deploy/kubernetes.yaml brings into a pod is a good policy, with every variable that it names, and agrees
// with the pod: ports, probes, times, numbers.
func TestKubernetes(t *testing.T) {
	docs := yamlDocs(t, deployFolder+"kubernetes.yaml")
	deployment := docs["Deployment llmgov"]
	pod := deployment.at("spec.template.spec")
	gateway := pod.at("containers.0")

	folder := podFiles(t, docs, pod)
	env := podEnv(t, gateway)
	config := folder + gateway.at("args.2").text()
	snap := testkit.Must(tenants.Load(config, tenants.Options{Env: env, Store: store.Check}))(t)
	cfg := snap.Config()
	if len(snap.Tenants()) == 0 {
		t.Error("no tenants")
	}
	patience := time.Duration(pod.at("terminationGracePeriodSeconds").number()) * time.Second
	agrees(t, cfg, patience, deployment.at("spec.replicas").number())
	if surge := deployment.at("spec.strategy.rollingUpdate.maxSurge").number(); surge != 0 {
		t.Errorf("a roll-out has %d gateways more than expect_nodes says", surge)
	}

	ports := map[string]string{}
	for _, p := range gateway.at("ports").list() {
		ports[p.at("name").text()] = p.at("containerPort").text()
	}
	want := map[string]string{"http": portOf(t, cfg.Listen), "admin": portOf(t, cfg.Admin.Listen)}
	testkit.Same(t, want, ports)
	monitor := yamlDocs(t, deployFolder+"podmonitor.yaml")["PodMonitor llmgov"]
	scrape := monitor.at("spec.podMetricsEndpoints.0")
	if to := docs["Service llmgov"].at("spec.ports.0.targetPort").text(); to != "http" {
		t.Errorf("the service leads to port %s", to)
	}
	for _, at := range []node{gateway.at("readinessProbe.httpGet"), gateway.at("livenessProbe.httpGet"), scrape} {
		if at.at("port").text() != "admin" {
			t.Errorf("%v is not asked at port admin", at.value)
		}
	}
	chosen := map[string]node{"the deployment": deployment, "the budget": docs["PodDisruptionBudget llmgov"], "the monitor": monitor}
	for who, doc := range chosen {
		testkit.Same(t, deployment.at("spec.template.metadata.labels").value, doc.at("spec.selector.matchLabels").value, who, "chooses others")
	}
	testkit.Same(t, deployment.at("spec.template.metadata.labels").value, docs["Service llmgov"].at("spec.selector").value, "the service chooses others")

	t.Run("probes", func(t *testing.T) {
		p := processtest.Command{
			Env:  append(env, "LLMGOV_LISTEN=127.0.0.1:0", "LLMGOV_ADMIN_LISTEN=127.0.0.1:0", "LLMGOV_STORE="+redistest.New(t).URL()),
			Args: []string{"serve", "-c", config},
		}.Serve(t)
		token := secretValue(scrape.at("authorization.credentials.key").text())
		for _, ask := range [][2]string{
			{gateway.at("readinessProbe.httpGet.path").text(), ""},
			{gateway.at("livenessProbe.httpGet.path").text(), ""},
			{scrape.at("path").text(), token},
		} {
			if status := processtest.Ask(t, http.MethodGet, p.Admin+ask[0], ask[1], "").Status; status != http.StatusOK {
				t.Errorf("%s: %d", ask[0], status)
			}
		}
	})
}

// So it is with docs/deploy/compose.yaml, and with the image that both run.
func TestCompose(t *testing.T) {
	doc := yamlDocs(t, deployFolder+"compose.yaml")[" "]
	gateway := doc.at("services.llmgov")
	env := []string{"PATH=" + os.Getenv("PATH")}
	for name := range gateway.at("environment").value.(map[string]any) {
		env = append(env, name+"="+secretValue(name))
	}
	from, to, _ := strings.Cut(gateway.at("volumes.0").text(), ":")
	config := filepath.Join(deployFolder, from, gateway.at("command.2").text())
	snap := testkit.Must(tenants.Load(config, tenants.Options{Env: append(env, "OPENAI_BASE_URL=http://127.0.0.1:1/v1"), Store: store.Check}))(t)
	cfg := snap.Config()
	if len(snap.Tenants()) == 0 {
		t.Error("no tenants")
	}
	patience := testkit.Must(time.ParseDuration(gateway.at("stop_grace_period").text()))(t)
	agrees(t, cfg, patience, gateway.at("deploy.replicas").number())

	var scrape node
	testkit.OK(t, yaml.Unmarshal([]byte(doc.at("configs.prometheus.content").text()), &scrape.value))
	scrape.T = t
	if got, want := scrape.at("scrape_configs.0.dns_sd_configs.0.port").text(), portOf(t, cfg.Admin.Listen); got != want {
		t.Errorf("Prometheus asks at port %s, and the admin side is at %s", got, want)
	}

	image := read(t, filepath.Join(deployFolder, doc.at("services.llmgov.build").text(), "Dockerfile"))
	pod := yamlDocs(t, deployFolder+"kubernetes.yaml")["Deployment llmgov"].at("spec.template.spec.securityContext")
	for _, line := range []string{
		"WORKDIR " + strings.TrimSuffix(to, ":ro"),
		"EXPOSE " + portOf(t, cfg.Listen) + " " + portOf(t, cfg.Admin.Listen),
		"USER " + pod.at("runAsUser").text() + ":" + pod.at("runAsGroup").text(),
	} {
		if !strings.Contains(image, "\n"+line+"\n") {
			t.Errorf("the Dockerfile has no line %s", line)
		}
	}
}

// Whatever a release is built from and with is named by what it contains, not by a tag that others can move.
func TestPinned(t *testing.T) {
	root := filepath.Join(deployFolder, "..", "..")
	workflows, err := filepath.Glob(filepath.Join(root, ".github", "workflows", "*.yaml"))
	if err != nil || len(workflows) == 0 {
		t.Fatal(workflows, err)
	}
	for _, file := range append(workflows, filepath.Join(root, "Dockerfile"), filepath.Join(deployFolder, "compose.yaml")) {
		for line := range strings.Lines(read(t, file)) {
			named := regexp.MustCompile(`^(?:FROM .*?|\s+-? ?(?:uses|image): )([a-z0-9./-]+[:@]\S+)`).FindStringSubmatch(line)
			if named != nil && !regexp.MustCompile(`@([0-9a-f]{40}|sha256:[0-9a-f]{64})$`).MatchString(named[1]) {
				t.Errorf("%s: %s is not pinned", file, named[1])
			}
		}
	}
}

// So it is with the packages of a release: the unit starts what they install, and their config is good.
func TestPackage(t *testing.T) {
	release := yamlDocs(t, "../../../../.goreleaser.yaml")[" "]
	pack := release.at("nfpms.0")
	if who, err := mail.ParseAddress(pack.at("maintainer").text()); err != nil || who.Name == "" || pack.at("section").text() == "" {
		t.Errorf("the maintainer is %v (%v), the section %s", pack.at("maintainer").value, err, pack.at("section").text())
	}
	root := t.TempDir()
	sources := map[string]string{} // by what they are installed as
	for _, file := range pack.at("contents").list() {
		to := file.at("dst").text()
		sources[to] = file.at("src").text()
		if sources[to] == "bin/llmgov.1.gz" { // .ci/man makes it
			continue
		}
		text := read(t, "../../../../"+sources[to])
		testkit.OK(t, os.MkdirAll(filepath.Dir(root+to), 0o755))
		testkit.OK(t, os.WriteFile(root+to, []byte(text), 0o600))
	}
	unit := read(t, root+"/usr/lib/systemd/system/llmgov.service")
	const config = "/etc/llmgov/llmgov.yaml"
	for _, line := range []string{"ExecStart=/usr/bin/llmgov serve -c " + config, "ExecReload=/usr/bin/llmgov reload -c " + config, "StateDirectory=llmgov"} {
		if !strings.Contains(unit, "\n"+line+"\n") {
			t.Errorf("the unit has no line %s", line)
		}
	}
	snap := testkit.Must(tenants.Load(root+config, tenants.Options{Env: []string{"OPENAI_API_KEY=sk-x"}, Store: store.Check}))(t)
	if cfg := snap.Config(); !strings.HasPrefix(cfg.KeysFile, "/var/lib/llmgov/") || cfg.StateDir != "/var/lib/llmgov" {
		t.Errorf("the service may not write to %s and %s", cfg.KeysFile, cfg.StateDir)
	}
}

// agrees compares what the config says with what runs the gateways.
func agrees(t *testing.T, cfg *tenants.Config, patience time.Duration, gateways int) {
	t.Helper()
	const afterDrain = 4 * time.Second // what is cut, the last spans, the admin side
	if patience < cfg.Timeouts.Drain+afterDrain {
		t.Errorf("killed after %s, and drains for %s", patience, cfg.Timeouts.Drain)
	}
	if len(cfg.Pools) == 0 {
		t.Error("no pools")
	}
	for _, pool := range cfg.Pools {
		if pool.ExpectNodes != gateways {
			t.Errorf("pool %s expects %d gateways, there are %d", pool.Name, pool.ExpectNodes, gateways)
		}
	}
}

// podFiles lays out what a pod mounts of config maps. What names a mounted folder names the one on this machine.
func podFiles(t *testing.T, docs map[string]node, pod node) string {
	t.Helper()
	folder := t.TempDir()
	maps := map[string]string{}
	for _, v := range pod.at("volumes").list() {
		if from, ok := v.value.(map[string]any)["configMap"]; ok {
			maps[v.at("name").text()] = fmt.Sprint(from.(map[string]any)["name"])
		}
	}
	var here []string // old and new names by turns
	for _, m := range pod.at("containers.0.volumeMounts").list() {
		path := m.at("mountPath").text()
		here = append(here, path+"/", folder+path+"/", path+"\n", folder+path+"\n")
		testkit.OK(t, os.MkdirAll(folder+path, 0o755))
	}
	for _, m := range pod.at("containers.0.volumeMounts").list() {
		name, ok := maps[m.at("name").text()]
		if !ok {
			continue // no config map
		}
		for file, text := range docs["ConfigMap "+name].at("data").value.(map[string]any) {
			text := strings.NewReplacer(here...).Replace(text.(string))
			testkit.OK(t, os.WriteFile(filepath.Join(folder, m.at("mountPath").text(), file), []byte(text), 0o600))
		}
	}
	return folder
}

// podEnv is a container's environment. The page tells how to make what comes from a secret.
func podEnv(t *testing.T, container node) []string {
	t.Helper()
	page := read(t, "../../../../docs/deploy.md")
	env := []string{"PATH=" + os.Getenv("PATH")}
	for _, e := range container.at("env").list() {
		// of the pod
		name := e.at("name").text()
		value := "llmgov-abc12"
		all := e.value.(map[string]any)
		if said, ok := all["value"]; ok {
			value = fmt.Sprint(said)
		} else if from := all["valueFrom"].(map[string]any); from["secretKeyRef"] != nil {
			key := e.at("valueFrom.secretKeyRef.key").text()
			value = secretValue(key)
			if !strings.Contains(page, "--from-literal="+key+"=") {
				t.Errorf("docs/deploy.md makes a secret without %s", key)
			}
		}
		env = append(env, name+"="+value)
	}
	return env
}

func secretValue(key string) string { return "secret-" + strings.ToLower(key) }

func portOf(t *testing.T, address string) string {
	t.Helper()
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	return port
}
