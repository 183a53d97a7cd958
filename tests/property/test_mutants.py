"""Whatever is wrong with an input, it is refused in one line that names it, or taken: there is no internal error.

CHARKHA_MUTANTS sets how many of each kind are tried; `python -m tests.support.mutation_run` tries 20,000 and prints a
table.
"""

import os

import pytest

from tests.support.full import IS_FULL
from tests.support.mutant_kinds import FIELDS, KINDS
from tests.support.mutation_run import try_mutants

MUTANTS = int(os.environ.get("CHARKHA_MUTANTS", "10000" if IS_FULL else "1000"))


@pytest.mark.parametrize("name", [one.name for one in KINDS])
def test_a_damaged_input_is_refused_or_taken(name: str) -> None:
    found = try_mutants(name, range(MUTANTS))
    assert found.first == {}, "numbers for `python -m tests.support.mutation_run KIND --show NUMBER`"
    assert 0 < found.accepted < MUTANTS
    assert found.accepted + found.refused == MUTANTS


@pytest.mark.parametrize("name", [one.name for one in FIELDS])
def test_a_changed_recording_makes_a_difference_or_is_refused(name: str) -> None:
    found = try_mutants(name, range(MUTANTS // 20))
    assert found.first == {}, "numbers for `python -m tests.support.mutation_run KIND --show NUMBER`"
    assert 0 < found.accepted < found.mutants
