"""Tests on real kernels: network namespaces and what is between them. They need root; a skip says what is missing."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.machine import Machine, machine
from tests.support.namespaces import Namespace, namespace, why_not

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.lab)


@pytest.fixture(scope="session")
def lab_host() -> None:
    """Skips where the host has not what lab tests need."""
    reason = why_not()
    if reason is not None:
        pytest.skip(f"no lab here: {reason}")


@pytest.fixture
def place(lab_host: None) -> Iterator[Namespace]:
    """A network namespace of the test's own."""
    with namespace() as one:
        yield one


@pytest.fixture
def host(lab_host: None, tmp_path: Path) -> Iterator[Machine]:
    """A machine of the test's own, in which labs are brought up."""
    with machine(tmp_path) as one:
        yield one
