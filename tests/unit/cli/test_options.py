"""The table of options: every part of a run spec that a command line can set survives the way through it."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given as for_all
from hypothesis import settings
from hypothesis import strategies as st

from emulator.cli.commands import bench, run
from emulator.cli.options import add_options, build, given
from emulator.cli.parser import Parser
from emulator.errors import InputError
from emulator.experiment.spec.parts import part_of
from emulator.experiment.spec.settings import SETTINGS
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
from emulator.option import Level, Option
from tests.support.full import examples


def parsed(words: Sequence[str], options: Sequence[Option]) -> Experiment:
    parser = Parser()
    add_options(parser, options, with_set=Level.FULL)
    args = parser.parse_args(words)
    return build(given(args, options), options, args)


def to_arguments(experiment: Experiment, options: Sequence[Option]) -> list[str]:
    """The words of a command line that give this run spec; positional arguments first."""
    document = part_of(experiment)
    words: list[str] = []
    for option in sorted((one for one in options if one.flags), key=lambda one: not one.is_positional):
        value: Any = document
        for key in option.path.split("."):
            value = value.get(key, {})
        if value != {}:
            words += words_for(option, value)
    return words


def words_for(option: Option, value: Any) -> list[str]:
    """The words that set this value."""
    if option.is_switch:
        return [option.flags[-1]] if value != option.default else []
    if isinstance(value, bool):
        value = "on" if value else "off"
    several = [f"{name}={one}" for name, one in value.items()] if option.is_mapping else value
    texts = several if option.is_repeatable else [value]
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
TRANSPORT_OPTIONS = st.fixed_dictionaries(
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
        options=TRANSPORT_OPTIONS,
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
    again = parsed(to_arguments(experiment, run.OPTIONS), run.OPTIONS)
    assert again.to_plain() == experiment.to_plain()


@for_all(experiments(jobs(sweep=SWEEPS)))
@settings(max_examples=examples(200), deadline=None)
def test_a_sweep_as_arguments_gives_the_same_sweep(experiment: Experiment) -> None:
    again = parsed(to_arguments(experiment, bench.OPTIONS), bench.OPTIONS)
    assert again.to_plain() == experiment.to_plain()


def test_an_option_that_is_not_given_sets_nothing() -> None:
    assert parsed(["t"], run.OPTIONS).to_plain() == {"charkha": 1, "jobs": [{"trace": {"path": "t"}}]}


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
        parsed(words, run.OPTIONS)
    assert problem in str(caught.value)


def test_a_value_that_only_the_run_spec_refuses_names_the_option() -> None:
    with pytest.raises(InputError, match="--iterations: expected int, got text"):
        build({"job": {"trace": {"path": "t"}, "iterations": "3"}}, run.OPTIONS)


EXPERTS = {one.path: one for one in SETTINGS if one.facts.level is Level.EXPERT}
VALUES = {"SIZE": "4K", "S": "2", "FILE": "file.pem", "T": "9", "N": "7"}


@pytest.mark.parametrize("path", EXPERTS)
def test_an_option_of_experts_and_set_give_the_same_run_spec(path: str) -> None:
    one = EXPERTS[path]
    value = "1280" if path == "network.mtu" else one.choices[-1] if one.choices else VALUES[str(one.metavar)]
    by_flag = parsed(["t", one.flags[-1], value], run.OPTIONS)
    for name in (path, one.name.replace("_", "-"), one.flags[-1].removeprefix("--")):
        assert parsed(["t", "--set", f"{name}={value}"], run.OPTIONS) == by_flag
    assert by_flag != parsed(["t"], run.OPTIONS)


def test_set_comes_after_options_and_holds_for_every_job() -> None:
    jobs = ["--job", "a=t,warmup=3", "--job", "b=t,element_bytes=2", "--job", "c=t,until=others"]
    found = parsed([*jobs, "--warmup", "5", "--set", "warmup=0", "--set", "iterations=2"], run.OPTIONS)
    assert [(job.warmup, job.iterations) for job in found.jobs] == [(0, 2), (0, 2), (0, None)]
    assert [job.trace and job.trace.element_bytes for job in found.jobs] == [None, 2, None]
