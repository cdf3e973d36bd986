"""docs/clients.md: its blocks of Python run as they stand, and it names the versions that are tested."""

import pathlib
import re
import subprocess
import sys

import pytest
from harness.gateway import key_of
from harness.prompt import TEXT

PAGE = (pathlib.Path(__file__).parents[5] / "docs" / "clients.md").read_text()
BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
PACKAGES = ["openai", "anthropic", "langchain-openai", "pydantic-ai-slim", "openai-agents", "litellm"]


@pytest.mark.parametrize("block", BLOCKS, ids=[re.search(r"(?:import|from) (\w+)", block)[1] for block in BLOCKS])
def test_block(block, gateway, request):
    ours = "import litellm" in block
    if ours != ("litellm_sdk" in request.config.getoption("--clients")):
        pytest.skip("needs the other environment")
    tenant = "litellm" if ours else "openai-chat"
    program = block.replace("http://localhost:8080", gateway.url).replace("llmg_…", key_of(tenant))
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert run.stdout.strip() == TEXT.strip(), run.stderr


def test_versions():
    folder = pathlib.Path(__file__).parent
    pins = dict(line.split("==") for line in (folder / "litellm" / "requirements.txt").read_text().split())
    pins |= dict(line.split("==") for line in (folder / "requirements.txt").read_text().split())
    for name in PACKAGES:
        assert re.search(rf"\| `{name}` \| {re.escape(pins[name])} \|", PAGE), f"{name} {pins[name]}"
    assert len(BLOCKS) == len(PACKAGES)
