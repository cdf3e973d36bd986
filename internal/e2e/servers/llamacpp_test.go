package servers

import (
	"net/http"
	"os/exec"
	"strconv"
)

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
