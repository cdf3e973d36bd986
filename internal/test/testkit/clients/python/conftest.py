"""Which clients are tested: --clients names modules in clients/. LLMGOV is the binary."""

import importlib

import pytest
from harness.gateway import Gateway


def pytest_addoption(parser):
    parser.addoption("--clients", required=True, help="modules in clients/, with commas between them")


def chosen(config):
    for module in config.getoption("--clients").split(","):
        yield from importlib.import_module(f"clients.{module}").CLIENTS


def pytest_generate_tests(metafunc):
    if "made" in metafunc.fixturenames:
        clients = list(chosen(metafunc.config))
        metafunc.parametrize("made", clients, ids=[client.name for client in clients])


def tenants_of(client) -> dict:
    """The tenants that a client's cases need."""
    return {
        client.name: {"rpm": 1000, "tpm": 1_000_000},
        f"{client.name}-slot": {"concurrency": 1},
        f"{client.name}-again": {"concurrency": 1},
        f"{client.name}-budget": {"budgets": [{"tokens": 10, "per": "month"}]},
    }


@pytest.fixture(scope="session")
def gateway(request, tmp_path_factory):
    tenants = {}
    for client in chosen(request.config):
        tenants |= tenants_of(client)
    running = Gateway(tmp_path_factory.mktemp("llmgov"), tenants)
    yield running
    assert running.stop() == []
