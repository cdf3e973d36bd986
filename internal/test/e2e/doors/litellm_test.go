package doors

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/llmgov/llmgov/internal/test/testkit"
)

// liteLLM is the LiteLLM proxy with integrations/litellm/llmgov.py.
var liteLLM = Door{
	Name:     "LiteLLM",
	Needs:    needsLiteLLM,
	Open:     func(t *testing.T, s *Site) Post { s.Serve(); return openLiteLLM(t, s, true) },
	Loses:    "Calls that come to an end are charged exactly. Of an answer that breaks off, LiteLLM reads less than was produced, and when its caller leaves early, it reads nothing: such calls are charged by what it read, or by the time that they ran.",
	InFlight: GoesOn,
	Away:     Fails,
	Rate:     10,
}

const (
	liteLLMConfig = `model_list:
  - model_name: gpt-4o
    litellm_params: {model: openai/gpt-4o, api_base: "%s/v1", api_key: none, max_retries: 0}
litellm_settings: {%srequest_timeout: 60, num_retries: 0, disable_token_counter: true}
router_settings: {disable_cooldowns: true, num_retries: 0}
general_settings: {custom_auth: who.who}
`
	// liteLLMAuth knows callers by their keys, as LiteLLM's database would, and gives them limits of LiteLLM's own.
	liteLLMAuth = `from litellm.proxy._types import UserAPIKeyAuth

async def who(request, api_key):
    name = api_key.removeprefix("sk-").removesuffix("-0123456789abcdef")
    return UserAPIKeyAuth(api_key=api_key, key_alias=name%s)
`
)

// liteLLMProgram is the environment variable with the path of LiteLLM, which litellm/run.sh installs.
const liteLLMProgram = "LITELLM"

func needsLiteLLM(t *testing.T) {
	t.Helper()
	if os.Getenv(liteLLMProgram) == "" {
		testkit.Elsewhere(t, "LiteLLM", "test-litellm")
	}
}

// openLiteLLM runs the LiteLLM proxy in front of the site's model server, with llmgov or with limits of its own.
func openLiteLLM(t *testing.T, s *Site, governed bool) Post {
	t.Helper()
	callbacks := ""
	limits := ", rpm_limit=10"
	if governed {
		limits = ""
		callbacks = "callbacks: [llmgov.governed], "
		file := testkit.Must(os.ReadFile("../../../../integrations/litellm/llmgov.py"))(t)
		s.write("llmgov.py", string(file))
	}
	s.write("who.py", fmt.Sprintf(liteLLMAuth, limits))
	return startLiteLLM(t, s, s.write("litellm.yaml", fmt.Sprintf(liteLLMConfig, s.ModelURL, callbacks)))
}

// startLiteLLM runs the LiteLLM proxy with a config file.
func startLiteLLM(t *testing.T, s *Site, config string) Post {
	t.Helper()
	port := testkit.Port(t)
	log := &bytes.Buffer{}
	proxy := exec.Command(os.Getenv(liteLLMProgram), "--config", config, "--host", "127.0.0.1", "--port", fmt.Sprint(port), "--telemetry", "False")
	proxy.Dir = s.Dir
	proxy.Env = append(os.Environ(), "LLMGOV_URL=http://"+s.Admission, "LLMGOV_TOKEN="+AdmissionToken, "LITELLM_LOCAL_MODEL_COST_MAP=True", "LITELLM_LOG=ERROR", "LITELLM_MASTER_KEY=sk-0123456789abcdef0123456789abcdef0123456789abcdef", "PYTHONDONTWRITEBYTECODE=1")
	proxy.Stdout = log
	proxy.Stderr = log
	testkit.OK(t, proxy.Start())
	ended := make(chan struct{})
	go func() { _ = proxy.Wait(); close(ended) }()
	t.Cleanup(func() {
		_ = proxy.Process.Kill()
		<-ended
		if t.Failed() {
			t.Logf("LiteLLM: %s", lastOf(log.String(), 8000))
		}
	})
	base := fmt.Sprintf("http://127.0.0.1:%d", port)
	for until := time.Now().Add(2 * time.Minute); ; time.Sleep(100 * time.Millisecond) {
		resp, err := http.Get(base + "/health/liveliness")
		if err == nil {
			_ = resp.Body.Close()
			break
		}
		select {
		case <-ended:
			t.Fatal("LiteLLM has ended")
		default:
		}
		if time.Now().After(until) {
			t.Fatal("LiteLLM does not listen")
		}
	}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 100}}
	t.Cleanup(client.CloseIdleConnections)
	return postTo(client, base)
}

func lastOf(text string, n int) string {
	return strings.TrimSpace(text[max(0, len(text)-n):])
}

// TestLiteLLM_Alone compares a budget of ten calls, at two replicas of LiteLLM without Redis: by LiteLLM's own limit of
// ten calls a minute, and by llmgov. Each replica counts for itself.
func TestLiteLLM_Alone(t *testing.T) {
	needsLiteLLM(t)
	for _, c := range []struct {
		name     string
		governed bool
		most     int64
	}{{"alone", false, 20}, {"with llmgov", true, 10}} {
		t.Run(c.name, func(t *testing.T) {
			s := newSite(t, "tpm: 100000000", map[string]string{"ten": "budgets: [{requests: 10, per: month}]"})
			s.Serve()
			replicas := []Post{openLiteLLM(t, s, c.governed), openLiteLLM(t, s, c.governed)}
			statuses := atOnce(t.Context(), 50, func(i int) said {
				return call(t.Context(), replicas[i%2], "ten", chat(20, false, `"first_token_ms":50`))
			})
			s.atRest(t)
			stats := s.Model.Stats()
			t.Logf("%d of 50 calls reached the model server, %d tokens, answers %v", stats.Requests, stats.TokensProduced, statuses)
			if stats.Requests != c.most {
				t.Errorf("%d calls reached the model server, %d is known", stats.Requests, c.most)
			}
		})
	}
}
