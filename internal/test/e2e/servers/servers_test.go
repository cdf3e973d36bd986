package servers

import (
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/llmgov/llmgov/internal/test/testkit/doctable"
	"github.com/llmgov/llmgov/internal/test/testkit/processtest"
)

// servers are all of them, in the order of the table.
var servers = []*server{&llamaCPP, &vLLM}

// measured is how long the cases take that measure.
var measured = flag.Duration("measured", 10*time.Minute, "how long shares are measured; limits take two minutes at most")

// TestServers runs every case in front of every server.
func TestServers(t *testing.T) {
	for _, s := range servers {
		t.Run(s.name, func(t *testing.T) {
			r := s.start(t)
			for _, c := range cases {
				t.Run(c.name, func(t *testing.T) { c.run(t, r) })
			}
		})
	}
}

func TestMain(m *testing.M) { processtest.Main(m) }

// TestTable_IsOfTheSuite: the documentation promises what the suite tests.
func TestTable_IsOfTheSuite(t *testing.T) {
	doctable.Check(t, "../../../../docs/upstreams.md", "<!-- table of servers and cases: made by internal/test/e2e/servers -->\n", table())
}

// table has a row for each case and each wrong call, and a column for each server.
func table() string {
	var b strings.Builder
	b.WriteString("| |")
	for _, s := range servers {
		b.WriteString(" " + s.name + " |")
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(servers)) + "\n")
	for _, c := range cases {
		b.WriteString("| " + c.title + " |" + strings.Repeat(" yes |", len(servers)) + "\n")
	}
	for _, w := range wrong {
		b.WriteString("| its answer to " + w.title + " |")
		for _, s := range servers {
			b.WriteString(" " + s.refuses[w.name].String() + " |")
		}
		b.WriteString("\n")
	}
	return b.String()
}

func (r refusal) String() string {
	if r.kind == "" {
		return fmt.Sprint(r.status)
	}
	return fmt.Sprintf("%d `%s`", r.status, r.kind)
}

// llamaCPP is llama.cpp's own server.
var llamaCPP = server{
	name:    "llama.cpp",
	program: "LLAMA_SERVER",
	model:   "LLAMA_MODEL",
	engine:  "llamacpp",
	command: func(program, model string, port int) *exec.Cmd {
		return exec.Command(program, "--model", model, "--host", "127.0.0.1", "--port", strconv.Itoa(port),
			"--parallel", strconv.Itoa(slots), "--ctx-size", strconv.Itoa(slots*contextTokens), "--metrics", "--threads", "1")
	},
	gauges: gauges{
		running:   "llamacpp:requests_processing",
		waiting:   "llamacpp:requests_deferred",
		prompt:    "llamacpp:prompt_tokens_total",
		cached:    "llamacpp:prompt_tokens_cached_total",
		generated: "llamacpp:tokens_predicted_total",
	},
	refuses: map[string]refusal{
		"long":    {http.StatusBadRequest, "exceed_context_size_error"},
		"model":   {http.StatusOK, ""},
		"content": {http.StatusBadRequest, "invalid_request_error"},
	},
}

// vLLM is vLLM on a CPU, with weights that it makes up.
var vLLM = server{
	name:    "vLLM",
	program: "VLLM_PYTHON",
	model:   "VLLM_MODEL",
	engine:  "vllm",
	command: func(python, model string, port int) *exec.Cmd {
		cmd := exec.Command(python, "-m", "vllm.entrypoints.openai.api_server", "--model", model, "--served-model-name", "m", "--load-format", "dummy",
			"--host", "127.0.0.1", "--port", strconv.Itoa(port), "--max-num-seqs", strconv.Itoa(slots), "--max-model-len", strconv.Itoa(contextTokens),
			"--enforce-eager")
		cmd.Env = append(os.Environ(), "OMP_NUM_THREADS=1", "VLLM_CPU_OMP_THREADS_BIND=nobind", "VLLM_CPU_KVCACHE_SPACE=1", "HF_HUB_OFFLINE=1", "DO_NOT_TRACK=1")
		return cmd
	},
	gauges: gauges{
		running:   "vllm:num_requests_running",
		waiting:   "vllm:num_requests_waiting",
		prompt:    "vllm:prompt_tokens_total",
		generated: "vllm:generation_tokens_total",
	},
	refuses: map[string]refusal{
		"long":    {http.StatusBadRequest, "BadRequestError"},
		"model":   {http.StatusNotFound, "NotFoundError"},
		"content": {http.StatusBadRequest, "Bad Request"},
	},
}
