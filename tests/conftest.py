"""Options and settings of all tests. `python -m pytest tests --rewrite` writes the golden files anew."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "repeatable", deadline=None, derandomize=True, database=None, max_examples=100, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
settings.load_profile("repeatable")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite", action="store_true", help="write the golden files anew instead of comparing with them")
    parser.addoption("--engines", choices=("one", "all"), default="one", help="engine releases that are tested for real: one, or every one that is prepared")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "engines: needs further engine releases; runs with --engines all")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--engines") == "all":
        return
    for item in items:
        if item.get_closest_marker("engines") is not None:
            item.add_marker(pytest.mark.skip(reason="runs with --engines all"))


@pytest.fixture
def rewrite(request: pytest.FixtureRequest) -> bool:
    """Whether golden files are to be written instead of compared."""
    return bool(request.config.getoption("--rewrite"))
