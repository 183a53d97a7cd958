"""The report of a run: the sections of its page, and the same facts as JSON."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import PurePath
from typing import Any

from emulator.plugins import PluginKind, load
from emulator.results.statistics.events import marks
from emulator.results.statistics.traffic.dut_counters import counter_series
from emulator.views.as_json import summary_to_json, verdict_to_json
from emulator.views.html.facts import PageFacts
from emulator.views.html.page.document import Page, PageSection
from emulator.views.html.sections.chosen import whole_iterations
from emulator.views.html.sections.events import events
from emulator.views.html.sections.iterations import completion, iterations, stragglers
from emulator.views.html.sections.method import DRAFT, description
from emulator.views.html.sections.overview import answer, checks, labels, overview, sentence, warnings
from emulator.views.html.sections.traffic import beside, device_counters, pairs_of, traffic
from emulator.views.html.sections.worst import recorded_steps, worst


def run_page(facts: PageFacts) -> Page:
    """The page of one run."""
    summary, manifest = facts.summary, facts.manifest
    name = PurePath(summary.trace).name or summary.trace  # the method section has the whole path
    return Page(
        title=f"{name} · {manifest.run_id} · charkha",
        heading=name,
        sentence=sentence(facts),
        labels=list(labels(facts)),
        warnings=list(warnings(facts)),
        sections=[
            overview(facts),
            *checks(facts.verdict),
            completion(facts),
            iterations(facts),
            stragglers(facts),
            traffic(facts),
            *events(facts),
            *(_rates(facts) if facts.timeline.num_rows else ()),
            *worst(facts),
            *recorded_steps(facts),
            *beside(facts),
            device_counters(facts),
            description(facts),
        ],
        footer=f"Run {manifest.run_id}, written by charkha {manifest.versions.get('charkha', '')} from its run folder. "
        f"Report format after {DRAFT}. Times are taken at the {manifest.observation_point}.",
        is_live=facts.is_running,
        answer=None if facts.is_running else answer(facts.verdict),
    )


def facts_to_json(facts: PageFacts) -> dict[str, Any]:
    """Everything on the page as JSON: the summary of `charkha run --json` with further keys."""
    return summary_to_json(facts.summary) | {
        "verdict": verdict_to_json(facts.verdict),
        "distributions": [asdict(facts.distribution(row)) for row in facts.summary.classes],
        "jct": [{"iteration": one.number, "jct_ns": one.jct_ns} for one in whole_iterations(facts)],
        "stragglers": [asdict(one) for one in (facts.late_posts, facts.late_ends) if one is not None],
        "flow_events": facts.flow_events.to_pylist(),
        "pairs": list(_pairs(facts)),
        "counters": [
            {**name._asdict(), "first": int(one.value[0]), "last": int(one.value[-1]), "largest": int(one.value.max())}
            for name, one in counter_series(facts.counters).items()
        ],
        "manifest": asdict(facts.manifest),
        "reported_after": DRAFT,
    }


def _rates(facts: PageFacts) -> Iterator[PageSection]:
    found: Iterator[PageSection] = load(PluginKind.HOOKS, "rate_sections")(
        facts.timeline, facts.manifest, marks(facts.summary.events, facts.summary.migrations), facts.counters
    )
    return found


def _pairs(facts: PageFacts) -> Iterator[dict[str, Any]]:
    pairs = pairs_of(facts)
    columns = (column.tolist() for column in (pairs.grid.src, pairs.grid.dst, pairs.grid.bytes, pairs.goodput))
    for at, (src, dst, size, goodput) in enumerate(zip(*columns, strict=True)):
        known = None if math.isnan(goodput) else goodput
        where = pairs.grid.where(at) or None
        yield {"src": src, "dst": dst, "where": where, "bytes": size, "goodput_bytes_per_s": known}
