package servers

import (
	"net/http"
	"os"
	"os/exec"
	"strconv"
)

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
