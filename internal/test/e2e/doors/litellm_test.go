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
	Open:     func(t *testing.T, s *Site) Post { s.Serve(); return openLiteLLM(t, s) },
	Loses:    "Calls that come to an end are charged exactly. Of an answer that breaks off, LiteLLM reads less than was produced, and when its caller leaves early, it reads nothing: such calls are charged by what it read, or by the time that they ran.",
	InFlight: GoesOn,
	Away:     Fails,
	Rate:     10,
}

const (
	liteLLMConfig = `model_list:
  - model_name: gpt-4o
    litellm_params: {model: openai/gpt-4o, api_base: "%s/v1", api_key: none, max_retries: 0}
litellm_settings: {callbacks: [llmgov.governed], request_timeout: 60, num_retries: 0, disable_token_counter: true}
router_settings: {disable_cooldowns: true, num_retries: 0}
general_settings: {custom_auth: who.who}
`
	// liteLLMAuth knows callers by their keys, as LiteLLM's database would.
	liteLLMAuth = `from litellm.proxy._types import UserAPIKeyAuth

async def who(request, api_key):
    name = api_key.removeprefix("sk-").removesuffix("-0123456789abcdef")
    return UserAPIKeyAuth(api_key=api_key, key_alias=name)
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

// openLiteLLM runs the LiteLLM proxy in front of the site's model server.
func openLiteLLM(t *testing.T, s *Site) Post {
	t.Helper()
	file := testkit.Must(os.ReadFile("../../../../integrations/litellm/llmgov.py"))(t)
	s.write("llmgov.py", string(file))
	s.write("who.py", liteLLMAuth)
	config := s.write("litellm.yaml", fmt.Sprintf(liteLLMConfig, s.ModelURL))
	port := testkit.Port(t)
	log := &bytes.Buffer{}
	proxy := exec.Command(os.Getenv(liteLLMProgram), "--config", config, "--host", "127.0.0.1", "--port", fmt.Sprint(port), "--telemetry", "False")
	proxy.Dir = s.Dir
	proxy.Env = append(os.Environ(), "LLMGOV_URL=http://"+s.Admission, "LLMGOV_TOKEN="+AdmissionToken, "LLMGOV_MEMBER=user", "LITELLM_LOCAL_MODEL_COST_MAP=True", "LITELLM_LOG=ERROR", "LITELLM_MASTER_KEY=sk-0123456789abcdef0123456789abcdef0123456789abcdef", "PYTHONDONTWRITEBYTECODE=1")
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
