"""Parts of a run spec as plain values: they are merged, then built into a run spec.

`job` stands for its one job; beside `jobs`, for what holds for each of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from emulator.experiment.spec.spec import Experiment
from emulator.schema import SchemaProblem, decode

Part = dict[str, Any]


def merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> Part:
    """Two parts of a run spec; where both set a value, `over` wins."""
    merged = dict(base)
    for key, value in over.items():
        old = merged.get(key)
        merged[key] = merge(old, value) if isinstance(old, Mapping) and isinstance(value, Mapping) else value
    return merged


def part_of(experiment: Experiment) -> Part:
    """A run spec as a part, with `job` in place of `jobs` if there is one."""
    plain = experiment.to_plain()
    jobs = plain.pop("jobs")
    return plain | ({"jobs": jobs} if len(jobs) > 1 else {"job": jobs[0]})


def build_experiment(part: Mapping[str, Any]) -> Experiment:
    """A run spec from a part that sets all it needs.

    Raises:
        SchemaProblem: a value does not fit; its path is that in the part, as `job.iterations`.
    """
    check_jobs(part)
    common = part.get("job", {})
    jobs = [merge(one, common_of(one, common)) for one in part["jobs"]] if "jobs" in part else [common]
    document = {key: value for key, value in part.items() if key != "job"} | {"jobs": jobs}
    try:
        return decode(document, Experiment)
    except SchemaProblem as problem:
        is_one = "jobs" not in part and problem.path[:1] == ("jobs",)
        path = ("job", *problem.path[2:]) if is_one else problem.path
        raise SchemaProblem(path, problem.problem) from problem


class _JobParts(Struct):
    job: Mapping[str, Any] = {}
    jobs: tuple[Mapping[str, Any], ...] = ()


def check_jobs(part: Mapping[str, Any]) -> None:
    """Check that the jobs of a part can be merged.

    Raises:
        SchemaProblem: one is no mapping, or `jobs` is no list.
    """
    decode({name: part[name] for name in ("job", "jobs") if name in part}, _JobParts)


def common_of(job: Mapping[str, Any], common: Mapping[str, Any]) -> Part:
    """What holds for each job, as far as for this one: a number of iterations holds for those that have one."""
    left_out = {"iterations"} if "until" in job else set()
    return {key: value for key, value in common.items() if key not in left_out}
