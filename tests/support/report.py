"""Reports of small runs: a page's blocks by identifier."""

import base64
import zlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from emulator.control.observations import ComputeSpans, FlowCounters, RankSummary
from emulator.results.run_folder.reader import read_run
from emulator.results.run_folder.schema import RunTable
from emulator.results.run_folder.writer import RunWriter
from emulator.views.html.facts import PageFacts, read_facts
from emulator.views.html.page.document import Block, Chart, PageSection, Table
from tests.support.runs import Row, collective, columns, manifest, ranks

B = TypeVar("B", bound=Block)


def unpacked(text: str) -> str:
    """What a page has packed."""
    return zlib.decompress(base64.b64decode(text)).decode()


def facts_of(
    folder: Path,
    samples: Iterable[Row],
    iterations: Mapping[int, Sequence[RankSummary]],
    *,
    flows: Sequence[FlowCounters] = (),
    compute: Sequence[tuple[int, int, int, int]] = (),
    **fields: Any,
) -> PageFacts:
    """Facts of a run.

    Args:
        folder: a folder that does not exist yet.
        samples: of all iterations.
        iterations: number -> how its ranks spent it.
        flows: of the whole run.
        compute: (iteration, rank, start_ns, end_ns).
        fields: of the manifest.
    """
    with RunWriter(folder, manifest(**fields)) as writer:
        writer.add(RunTable.SAMPLES, columns(samples))
        for number, summaries in iterations.items():
            writer.add_iteration(number, summaries)
        for number in sorted({one[0] for one in compute}):
            rank, start, end = np.array([one[1:] for one in compute if one[0] == number]).T
            writer.add_compute(ComputeSpans(number, rank, start, end))
        writer.add_flows(flows)
    return read_facts(read_run(folder))


JCT = (500, 300, 100, 200)


def played(folder: Path, **fields: object) -> PageFacts:
    """A warm-up and three iterations of 300, 100 and 200 ns, the second excluded if `fields` say so."""
    samples, spent = [], {}
    for number, jct in zip((-1, 0, 1, 2), JCT, strict=True):
        begin = 1000 * (number + 2)
        samples += collective([begin, begin], [begin + jct // 2] * 2, iteration=number)
        spent[number] = ranks(
            (begin, begin + jct), (begin + 10, begin + jct - 5), compute=40, communication=60, overlap=10
        )
    return facts_of(folder, samples, spent, **fields)


def block_of(section: PageSection, identifier: str, kind: type[B]) -> B:
    """The block of a section with this identifier."""
    (found,) = (one for one in section.blocks if one.identifier == identifier)
    assert isinstance(found, kind)
    return found


def identifiers(section: PageSection) -> list[str]:
    """Of all blocks, in order."""
    return [one.identifier for one in section.blocks]


def records(table: Table) -> list[dict[str, str]]:
    """Rows of a table by the names of their columns."""
    return [dict(zip((one.name for one in table.columns), row, strict=True)) for row in table.rows]


def drawn(chart: Chart, name: str) -> list[dict[str, Any]]:
    """Rows of a data set of a chart."""
    data = chart.picture.data[name]
    return [dict(zip(data, values, strict=True)) for values in zip(*data.values(), strict=True)]
