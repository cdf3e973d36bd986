"""One real gateway with config files of its own, in front of one simulated model server, both on free ports."""

import hashlib
import json
import os
import pathlib
import re
import signal
import subprocess
import threading

UPSTREAM_KEY = "sk-upstream-must-not-leak"
PATIENCE = 20  # seconds


def key_of(tenant: str) -> str:
    return f"sk-tenant-must-not-leak-{tenant}"


class Process:
    """A child whose output is kept."""

    def __init__(self, *args: str):
        self.args = args
        self.output = ""
        self.heard = threading.Condition()
        self.child = subprocess.Popen(
            [os.environ["LLMGOV"], *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self) -> None:
        for line in self.child.stdout:
            with self.heard:
                self.output += line
                self.heard.notify_all()

    def says(self, pattern: str) -> re.Match:
        """Waits until the output matches."""
        with self.heard:
            if not self.heard.wait_for(lambda: re.search(pattern, self.output), PATIENCE):
                raise TimeoutError(f"llmgov {self.args[0]} did not say {pattern}:\n{self.output}")
            return re.search(pattern, self.output)

    def end(self) -> list[str]:
        """Stops the process as somebody at its terminal does, and returns what was wrong with it."""
        self.child.send_signal(signal.SIGINT)
        code = self.child.wait(PATIENCE)
        self.reader.join(PATIENCE)
        problems = []
        if code != 0:
            problems.append(f"llmgov {self.args[0]} ended with {code}:\n{self.output}")
        for word in ("must-not-leak", "panic"):
            if word in self.output:
                problems.append(f"llmgov {self.args[0]} says {word}:\n{self.output}")
        return problems


class Gateway:
    def __init__(self, folder: pathlib.Path, tenants: dict):
        self.mock = Process("mock", "--listen", "127.0.0.1:0", "--api-key", UPSTREAM_KEY, "--output-tokens", "12")
        self.upstream = self.mock.says(r"(http:\S+)/v1,")[1]
        write_config(folder, self.upstream, tenants)
        self.serve = Process(
            "serve", "-c", str(folder / "llmgov.yaml"), "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"
        )
        said = self.serve.says(r"listens on (http:\S+), admin on (http:\S+)")
        self.url = said[1]
        self.admin = said[2]

    def stop(self) -> list[str]:
        return self.serve.end() + self.mock.end()


def write_config(folder: pathlib.Path, upstream: str, tenants: dict) -> None:
    """YAML reads JSON, so nothing here needs a YAML writer."""
    policies = {
        name: {**rules, "keys": ["sha256:" + hashlib.sha256(key_of(name).encode()).hexdigest()]} for name, rules in tenants.items()
    }
    (folder / "tenants").mkdir()
    (folder / "tenants" / "all.yaml").write_text(json.dumps({"tenants": policies}))
    # All of the minute at once: pacing is not what these tests are about.
    pool = {
        "models": ["gpt-4o", "claude-sonnet", "text-embedding-3-small"],
        "rpm": 10_000, "tpm": 10_000_000, "burst": "60s", "concurrency": 100,
    }  # fmt: skip
    config = {
        "upstreams": {"mock": {"base_url": f"{upstream}/v1", "api_key": UPSTREAM_KEY}},
        "timeouts": {"drain": "1s"},  # a call that was lost holds nobody up
        "pools": {"main": pool},
    }
    (folder / "llmgov.yaml").write_text(json.dumps(config))
