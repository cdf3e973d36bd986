"""What the gateway and the model server have in their books."""

import json
import time
import urllib.request
from collections.abc import Callable

from .gateway import Gateway, key_of


def read(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=60) as answer:
        return answer.read()


def leases(gateway: Gateway, tenant: str) -> int:
    """The calls of a tenant that the gateway has let in."""
    return sum(lease["tenant"] == tenant for lease in json.loads(read(f"{gateway.admin}/api/v1/leases"))["leases"])


def upstream(gateway: Gateway) -> dict:
    """The counters of the model server."""
    return json.loads(read(f"{gateway.upstream}/_stats"))


def counted(gateway: Gateway, name: str, **labels: str) -> float:
    """Sums a counter of the gateway's over the series with these labels."""
    total = 0.0
    for line in read(f"{gateway.admin}/metrics").decode().splitlines():
        if line.startswith(name + "{") and all(f'{label}="{value}"' in line for label, value in labels.items()):
            total += float(line.rsplit(" ", 1)[1])
    return total


def eventually(what: str, figure: Callable[[], float], want: float, patience: float = 30) -> None:
    """Waits until a figure is as wanted. What it is for happens at once on an idle machine."""
    last = time.monotonic() + patience
    while (got := figure()) != want:
        assert time.monotonic() < last, f"{what}: {got}, want {want}"
        time.sleep(0.005)


class Slot:
    """The only slot of a tenant, held until it is released."""

    def __init__(self, gateway: Gateway, tenant: str):
        self.gateway = gateway
        self.tenant = tenant
        body = {"model": "gpt-4o", "messages": [{"role": "user", "content": "hold"}], "stream": True, "mock": {"stall_after": 0}}
        headers = {"authorization": f"Bearer {key_of(tenant)}", "content-type": "application/json"}
        request = urllib.request.Request(f"{gateway.url}/v1/chat/completions", json.dumps(body).encode(), headers)
        self.answer = urllib.request.urlopen(request, timeout=30)

    def release(self) -> None:
        self.answer.close()
        eventually(f"leases of {self.tenant}", lambda: leases(self.gateway, self.tenant), 0)
