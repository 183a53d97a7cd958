"""Every rank of an imported trace knows what became of its own records."""

from collections import Counter
from pathlib import Path

import pytest

from emulator.annexes.importers.importing import import_trace, importer_named
from emulator.annexes.importers.model import Fate
from tests.support.import_sources import WRITERS, write_sample


@pytest.mark.parametrize("sample", list(WRITERS))
def test_the_counts_of_the_ranks_add_up_to_those_of_the_job(sample: str, tmp_path: Path) -> None:
    importer = write_sample(sample, tmp_path / "source")
    seen = []
    trace = import_trace(
        importer_named(importer), tmp_path / "source", on_rank=lambda done, ranks: seen.append((done, ranks))
    )
    whole = {(fate, what): tally.count for fate, what, tally in trace.losses}
    ranks: Counter[tuple[Fate, str]] = Counter()
    for rank in trace.ranks:
        ranks.update({(fate, what): tally.count for fate, what, tally in rank.losses})
        calls = Counter(one.kind.label for one in rank.operations)
        assert {
            what: tally.count for fate, what, tally in rank.losses if fate is Fate.MAPPED and what in calls
        } == calls
    for (fate, what), count in ranks.items():
        assert whole[fate, what] == count, what
    of_files = {what for fate, what in whole if (fate, what) not in ranks}
    # Counted once for a matrix or a layer, whoever plays it.
    updates = "times of weight updates, which follow the collective of a layer"
    assert of_files <= {"what a rank sends to itself", updates}
    assert seen == [(done, len(trace.ranks)) for done in range(1, len(trace.ranks) + 1)]
