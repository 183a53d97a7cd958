"""The table of options: every part of a run spec that a command line can set survives the way through it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given as for_all
from hypothesis import settings
from hypothesis import strategies as st

from emulator.cli.commands import bench, run
from emulator.cli.options.table import Option, OptionGroup, add_options, build, spec_part
from emulator.cli.parser import Parser
from emulator.errors import InputError
from emulator.experiment.spec.parts import part_of
from emulator.experiment.spec.spec import (
    Agents,
    Campaign,
    Device,
    Experiment,
    Job,
    Network,
    Observe,
    Sweep,
    Trace,
    Transport,
)
from tests.support.full import examples


def parsed(words: Sequence[str], groups: Sequence[OptionGroup]) -> Experiment:
    parser = Parser()
    add_options(parser, groups)
    return build(spec_part(parser.parse_args(words), groups), groups)


def to_arguments(experiment: Experiment, groups: Sequence[OptionGroup]) -> list[str]:
    """The words of a command line that give this run spec; positional arguments first."""
    document = part_of(experiment)
    options = [option for group in groups for option in group.options]
    words: list[str] = []
    for option in sorted(options, key=lambda one: not one.is_positional):
        value: Any = document
        for key in option.path.split("."):
            value = value.get(key, {})
        if value != {}:
            words += given(option, value)
    return words


def given(option: Option, value: Any) -> list[str]:
    """The words that set this value."""
    if option.constant is not None:
        return [option.flags[-1]] if value == option.constant else []
    if isinstance(value, bool):
        value = "on" if value else "off"
    several = [f"{name}={one}" for name, one in value.items()] if option.is_mapping else value
    texts = several if option.is_mapping or option.is_list else [value]
    words = [",".join(map(str, one)) if isinstance(one, list) else str(one) for one in texts]
    return words if option.is_positional else [word for text in words for word in (option.flags[-1], text)]


def maybe(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | strategy


NAMES = st.from_regex(r"[a-z][a-z0-9./]{0,8}", fullmatch=True)
COUNTS = st.integers(1, 2**31 - 1)
SECONDS = st.floats(0.02, 3600)
TRACES = st.builds(
    Trace,
    path=NAMES,
    groups=maybe(NAMES),
    ranks=maybe(COUNTS),
    lenient=st.booleans(),
    element_bytes=maybe(COUNTS),
    scale_bytes=maybe(st.sampled_from(["1/64", "2", "0.5"])),
)
SWEEPS = (
    st.builds(
        Sweep,
        collective=st.sampled_from(["all_reduce", "all_gather", "barrier"]),
        ranks=COUNTS,
        min_bytes=maybe(st.integers(1, 1 << 20)),
        max_bytes=maybe(st.sampled_from(["2M", "64M"])),
        factor=maybe(st.integers(2, 8) | st.floats(1.01, 8)),
    )
    | st.builds(
        Sweep,
        collective=st.just("all_reduce"),
        ranks=COUNTS,
        sizes=st.lists(st.integers(1, 1 << 30), min_size=1, max_size=4).map(tuple),
    )
    | st.builds(Sweep, collective=st.just("reduce"), ranks=COUNTS, min_bytes=maybe(COUNTS), step_bytes=st.just("3K"))
)
OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "qps": st.integers(1, 64),
        "path_mtu": st.sampled_from([256, 4096]),
        "window_bytes": st.sampled_from(["512K", 4096]),
        "congestion": st.sampled_from(["none", "dcqcn"]),
        "flow_rate_bps": st.just("10Gbit"),
        "rate_cap_bps": st.sampled_from(["off", "25Gbit"]),
        "qp_timeout": st.sampled_from(["nccl", 14]),
    },
)
NETWORKS = st.builds(
    Network,
    topology=maybe(NAMES),
    lab=maybe(NAMES),
    allow_networks=st.lists(st.just("192.0.2.0/24"), max_size=2).map(tuple),
    transport=st.builds(
        Transport,
        name=maybe(st.sampled_from(["roce", "zmq"])),
        message_bytes=maybe(st.integers(1, 1 << 30)),
        options=OPTIONS,
    ),
)


def experiments(job: st.SearchStrategy[Job]) -> st.SearchStrategy[Experiment]:
    return st.builds(
        Experiment,
        jobs=st.tuples(job),
        network=NETWORKS,
        device=st.builds(Device, counters_every_s=maybe(SECONDS)),
        agents=st.builds(
            Agents, count=maybe(COUNTS), listen=maybe(NAMES), join_timeout_s=maybe(SECONDS), tls_ca=maybe(NAMES)
        ),
        observe=st.builds(Observe, report=st.booleans(), mqtt=maybe(NAMES), calibration=maybe(NAMES)),
        timeout_s=maybe(SECONDS),
        seed=maybe(st.integers(0, 2**64 - 1)),
        campaign=maybe(st.builds(Campaign, repeat=st.just("auto") | st.integers(1, 999))),
    )


def jobs(**workload: st.SearchStrategy[Any]) -> st.SearchStrategy[Job]:
    return st.builds(
        Job,
        **workload,
        iterations=maybe(COUNTS),
        warmup=maybe(st.integers(0, 9)),
        algorithms=st.sampled_from([{}, {"all_reduce": "ring"}]),
        credits=maybe(st.booleans()),
    )


@for_all(experiments(jobs(trace=TRACES)))
@settings(max_examples=examples(300), deadline=None)
def test_a_run_spec_as_arguments_gives_the_same_run_spec(experiment: Experiment) -> None:
    again = parsed(to_arguments(experiment, run.GROUPS), run.GROUPS)
    assert again.to_plain() == experiment.to_plain()


@for_all(experiments(jobs(sweep=SWEEPS)))
@settings(max_examples=examples(200), deadline=None)
def test_a_sweep_as_arguments_gives_the_same_sweep(experiment: Experiment) -> None:
    again = parsed(to_arguments(experiment, bench.GROUPS), bench.GROUPS)
    assert again.to_plain() == experiment.to_plain()


def test_an_option_that_is_not_given_sets_nothing() -> None:
    assert parsed(["t"], run.GROUPS).to_plain() == {"charkha": 1, "jobs": [{"trace": {"path": "t"}}]}


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["t", "--iterations", "0"], "argument --iterations: '0': give a whole number of at least 1"),
        (["t", "--iterations", str(1 << 31)], "give a whole number of at most 2147483647"),
        (["t", "--algorithm", "ring"], "'ring': write NAME=VALUE"),
        (["t", "--credits", "maybe"], "argument --credits: there is no 'maybe'; choose from on, off"),
        (["t", "--qps", "65"], "argument --qps: 65: from 1 to 64"),
        (["t", "--timeout", "0"], "give a number of seconds above 0"),
        (["t", "--counters-every", "0.001"], "give a number of seconds from 0.02 to 3600"),
        (["t", "--profiles", "a,,b"], "separate profiles by commas"),
        (["t", "--repeat", "0"], "give a whole number of at least 1"),
        (["t", "--profile", "a", "--profiles", "a,b"], "give --profile or --profiles, not both"),
        (["t", "--iter", "3"], "unknown option '--iter'; did you mean '--iterations'?"),
    ],
)
def test_what_cannot_be_used_is_named_by_its_option(words: list[str], problem: str) -> None:
    with pytest.raises(InputError) as caught:
        parsed(words, run.GROUPS)
    assert problem in str(caught.value)


def test_a_value_that_only_the_run_spec_refuses_names_the_option() -> None:
    with pytest.raises(InputError, match="--iterations: expected int, got text"):
        build({"job": {"trace": {"path": "t"}, "iterations": "3"}}, run.GROUPS)
