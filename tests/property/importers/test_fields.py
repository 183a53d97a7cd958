"""Every field that a writer emits decides what is played, or is known to be without effect: none is passed over.

One field at a time is changed. Then the imported trace changes, something is counted, or the input is refused; else the
field must stand in WITHOUT_EFFECT. The kinds "fields: …" of `tests.support.mutation_run` change several, to anything.
"""

import pytest

from tests.support.import_fields import SAMPLES, WITHOUT_EFFECT, effective_places, fields, named, recording


@pytest.mark.parametrize("name", SAMPLES)
def test_no_field_is_passed_over(name: str) -> None:
    found: dict[bool, set[str]] = {True: set(), False: set()}
    effective = effective_places(name)
    for file, those in recording(name).items():
        for number, document in enumerate(those):
            for path in fields(document):
                if SAMPLES[name][0] != "aicb" or not document[path[0]].endswith(":"):  # the name of a setting
                    found[(file, number, path) in effective].add(named(document, path))
    assert found[False] - found[True] == set(WITHOUT_EFFECT[name])
