import re
from fractions import Fraction
from typing import Any

import pytest

from emulator.experiment.spec.spec import Device, Experiment, Job, Network, Sweep, Trace, Transport
from emulator.schema import SchemaProblem, decode, json_schema
from emulator.trace.meaning.model import CommKind

TRACE = {"trace": {"path": "t"}}
FLOW = {"kind": "perftest", "host": "a", "peer": "b"}


def experiment(**parts: Any) -> Experiment:
    return decode({"jobs": [TRACE], **parts}, Experiment)


def job(**parts: Any) -> Job:
    return experiment(jobs=[{**TRACE, **parts}]).job


def test_the_smallest_run_spec_is_one_trace() -> None:
    found = experiment()
    assert found.job.trace == Trace(path="t")
    assert found.to_plain() == {"charkha": 1, "jobs": [TRACE]}


def test_what_was_not_asked_for_stays_unset() -> None:
    found = experiment()
    assert found.job.iterations is found.job.credits is found.timeout_s is found.network.transport.name is None


def test_plain_values_make_the_same_run_spec_again() -> None:
    found = Experiment(
        jobs=(Job(sweep=Sweep(collective="all_reduce", ranks=4, min_bytes="1K"), iterations=3, credits=False),),
        network=Network(
            topology="t.yaml", transport=Transport(message_bytes="64K", options={"qps": "2", "ecn": False})
        ),
        device=Device(profile="fw-b"),
    )
    assert decode(found.to_plain(), Experiment) == found


def test_flows_make_the_same_run_spec_again() -> None:
    flows = [
        FLOW,
        {**FLOW, "host": ["a", "c"], "verb": "send", "size_bytes": "64K", "iterations": 7, "qps": 2, "rdma_cm": True},
        {**FLOW, "role": "server", "verb": "read", "duration_s": 2.0, "path_mtu": 1024, "port": 7},
    ]
    found = experiment(flows=flows, network={"topology": "t.yaml"})
    assert decode(found.to_plain(), Experiment) == found
    assert found.to_plain()["flows"][0] == FLOW
    assert [flow.hosts for flow in found.flows] == [("a",), ("a", "c"), ("a",)]
    assert found.flows[0].test.is_open_ended


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        ({"qps": 4}, {"qps": 4}),
        ({"qps": "4"}, {"qps": 4}),
        ({"ecn": False}, {"ecn": "off"}),
        ({"flow-rate": "10Gbit"}, {"flow_rate": "10Gbit"}),
        ({"ack_dscp": "-1"}, {"ack_dscp": -1}),
    ],
)
def test_options_have_one_spelling_whether_from_yaml_or_from_the_command_line(
    options: dict[str, Any], kept: dict[str, Any]
) -> None:
    assert Transport(options=options).options == kept


@pytest.mark.parametrize(("text", "factor"), [("replay", 1.0), ("skip", 0.0), ("0.5", 0.5), (2, 2.0), ("1/4", 0.25)])
def test_compute_is_a_word_or_a_factor(text: object, factor: float) -> None:
    assert job(compute=text).compute_factor == factor


def test_payload_is_scaled_by_an_exact_fraction() -> None:
    assert Trace(path="t", scale_bytes="1/3").scale == Fraction(1, 3)
    assert Trace(path="t").scale == 1


def test_a_sweep_has_its_sizes_in_bytes() -> None:
    sweep = Sweep(collective="all_gather", ranks=2, min_bytes="1K", max_bytes="2M")
    assert sweep.bounds == (1 << 10, 2 << 20)
    assert sweep.kind is CommKind.ALL_GATHER


@pytest.mark.parametrize(
    ("parts", "path", "problem"),
    [
        ({"jobs": []}, (), "jobs: list at least one"),
        ({"jobs": [TRACE, TRACE]}, (), "there are several jobs named 'job'"),
        ({"jobs": [{**TRACE, "name": "a/b"}]}, ("jobs", 0), "name: 'a/b'"),
        ({"jobs": [{**TRACE, "hosts": ["h0"]}]}, (), "hosts of a job need network.topology"),
        ({"jobs": [{**TRACE, "hosts": ["h0", "h0"]}]}, ("jobs", 0), "hosts: list at least one, and each only once"),
        ({"jobs": [{**TRACE, "until": "others"}]}, (), "every job waits for the others"),
        ({"jobs": [{**TRACE, "until": "others", "iterations": 3}]}, ("jobs", 0), "give iterations or until, not both"),
        ({"jobs": [{**TRACE, "start": "3"}]}, ("jobs", 0), "'3' is not a time"),
        ({"jobs": [{**TRACE, "pace": "fast"}]}, ("jobs", 0, "pace"), "'fast' is not one of"),
        ({"jobs": [{**TRACE, "addresses": "3/2"}]}, ("jobs", 0), "addresses: '3/2'"),
        (
            {"jobs": [{"pair_sweep": {"ranks": 2, "size_bytes": 0}}]},
            ("jobs", 0, "pair_sweep"),
            "size_bytes: a transfer has at",
        ),
        ({"jobs": [{}]}, ("jobs", 0), "a job needs exactly one of trace, sweep, pairs and pair_sweep"),
        ({"flows": [{}]}, ("flows", 0), "the key 'host' is missing"),
        ({"flows": [FLOW]}, (), "flows need network.topology"),
        ({"flows": [{**FLOW, "kind": "storage"}]}, ("flows", 0, "kind"), "'storage' is not one of perftest"),
        ({"flows": [{**FLOW, "verb": "put"}]}, ("flows", 0, "verb"), "'put' is not one of read, read-lat"),
        ({"flows": [{**FLOW, "host": []}]}, ("flows", 0), "host: list at least one"),
        ({"flows": [{**FLOW, "verb": "send"}]}, ("flows", 0), "verb send: give iterations or duration_s"),
        ({"flows": [{**FLOW, "bidirectional": True}]}, ("flows", 0), "bidirectional: give iterations or duration_s"),
        ({"flows": [{**FLOW, "role": "server"}]}, ("flows", 0), "role server: the peer decides when to end"),
        ({"flows": [{**FLOW, "iterations": 2, "duration_s": 3}]}, ("flows", 0), "iterations and duration_s: give one"),
        ({"flows": [{**FLOW, "path_mtu": 1500}]}, ("flows", 0), "path_mtu 1500: choose from 256"),
        ({"flows": [{**FLOW, "size_bytes": "3G"}]}, ("flows", 0), "size_bytes 3221225472: messages of 1 byte to 2 GiB"),
        ({"charkha": 2}, (), "this is version 2 of the run spec; this Charkha reads version 1"),
        ({"seed": 1 << 64}, (), "more than 64 bits"),
        ({"seed": -1}, ("seed",), "expected int >= 0"),
        ({"timeout_s": 0}, ("timeout_s",), "expected float > 0"),
        ({"colour": "red"}, (), "unknown key 'colour'"),
        ({"network": {"topologie": "t"}}, ("network",), "did you mean 'topology'?"),
        ({"network": {"transport": {"message_bytes": "much"}}}, ("network", "transport"), "'much' is not a size"),
        ({"network": {"transport": {"message_bytes": 0}}}, ("network", "transport"), "outside 1 byte to 1 GiB"),
        ({"campaign": {"repeat": 0}}, ("campaign", "repeat"), "expected int >= 1"),
        ({"campaign": {"repeat": "often"}}, ("campaign", "repeat"), "'often' is not one of int, auto"),
    ],
)
def test_what_does_not_fit_is_named(parts: dict[str, Any], path: tuple[object, ...], problem: str) -> None:
    with pytest.raises(SchemaProblem) as caught:
        experiment(**parts)
    assert caught.value.path == path
    assert problem in caught.value.problem


@pytest.mark.parametrize(
    ("parts", "problem"),
    [
        ({"iterations": 0}, "expected int >= 1"),
        ({"iterations": 1 << 31}, "expected int <= 2147483647"),
        ({"compute": "half"}, "'half': give replay, skip, or a factor for compute time"),
        ({"compute": -1}, "give replay, skip, or a factor"),
        ({"trace": {"path": "t", "scale_bytes": "0"}}, "give a factor"),
        ({"trace": {"path": "t", "scale_bytes": "1/0"}}, "give a factor"),
        ({"trace": {"path": "t", "scale_bytes": "1e400"}}, "give a factor"),
        ({"trace": {}}, "the key 'path' is missing"),
    ],
)
def test_what_does_not_fit_a_job_is_named(parts: dict[str, Any], problem: str) -> None:
    with pytest.raises(SchemaProblem) as caught:
        job(**parts)
    assert caught.value.path[:2] == ("jobs", 0)
    assert problem in caught.value.problem


def test_an_unknown_collective_is_refused_with_those_there_are() -> None:
    with pytest.raises(ValueError, match="there is no collective 'all_redcue'; did you mean 'all_reduce'"):
        Sweep(collective="all_redcue", ranks=2)


@pytest.mark.parametrize(
    ("parts", "problem"),
    [
        ({"factor": 1}, "'1': give a factor above 1, such as 2 or 1.5"),
        ({"factor": float("inf")}, "give a factor above 1"),
        ({"factor": 2, "step_bytes": 8}, "sizes grow by a factor (-f) or by a step (-i), not both"),
        ({"sizes": ["1K"], "max_bytes": "1M"}, "a list of sizes has no largest size (-e), factor (-f) or step (-i)"),
        ({"sizes": ["1K", "much"]}, "'much' is not a size"),
    ],
)
def test_a_sweep_that_cannot_be_is_refused(parts: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=re.escape(problem)):
        Sweep(collective="all_reduce", ranks=2, **parts)


def test_a_collective_has_one_spelling_in_a_run_spec() -> None:
    assert Sweep(collective="AllReduce", ranks=2) == Sweep(collective="all_reduce", ranks=2)


def test_the_json_schema_names_every_section() -> None:
    assert {"Experiment", "Job", "Trace", "Sweep", "Network", "Transport", "Agents"} <= set(
        json_schema(Experiment)["$defs"]
    )


SESSION = {
    "jobs": [
        {**TRACE, "name": "a", "hosts": ["h0", "h1"]},
        {**TRACE, "name": "b", "start": "+3ms", "until": "others", "transport": {"options": {"dscp": 26}}},
        {**TRACE, "name": "c", "hosts": ["h2"], "pace": "continuous", "transport": {"name": "zmq"}},
    ],
    "network": {"topology": "t.yaml", "transport": {"name": "roce", "options": {"qps": 2}}},
    "flows": [{**FLOW}],
}


def test_a_job_of_a_session_alone_keeps_its_places() -> None:
    alone = experiment(**SESSION).for_job("b")
    assert alone.jobs == (Job(name="b", trace=Trace(path="t"), addresses="2/3"),)
    assert alone.network.transport == Transport(name="roce", options={"qps": 2, "dscp": 26})
    assert alone.flows == ()
    assert decode(alone.to_plain(), Experiment) == alone


def test_jobs_share_addresses_only_where_they_may_meet() -> None:
    apart = {**SESSION, "jobs": [SESSION["jobs"][0], SESSION["jobs"][2]]}
    assert experiment(**apart).for_job("a").job.addresses is None
    assert experiment(**SESSION).for_job("a").job.address_share == (0, 3)
    loopback = {"jobs": [{**TRACE, "name": "a"}, {**TRACE, "name": "b"}]}
    assert experiment(**loopback).for_job("b").job.addresses is None


def test_a_job_with_another_transport_does_not_have_the_options_of_the_common_one() -> None:
    alone = experiment(**SESSION).for_job("c")
    assert alone.network.transport == Transport(name="zmq")
    assert alone.job.pace == "continuous"


def test_the_only_job_is_the_run_itself() -> None:
    found = experiment(flows=[FLOW], network={"topology": "t.yaml"})
    assert found.for_job("job") is found


@pytest.mark.parametrize(("text", "start_ns"), [("+3ms", 3_000_000), ("3ms", 3_000_000), ("0", 0), (None, 0)])
def test_a_job_starts_some_time_after_its_session(text: str | None, start_ns: int) -> None:
    assert job(**({} if text is None else {"start": text})).start_ns == start_ns


@pytest.mark.parametrize(
    ("hosts", "addresses"),
    [(("1/2", "2/2"), [None, None]), (("1/2", "2/3"), ["1/2", "2/2"]), (("1/3", "2/2"), [None, None])],
)
def test_jobs_on_parts_of_the_hosts_that_do_not_meet_keep_all_addresses(
    hosts: tuple[str, str], addresses: list[str | None]
) -> None:
    sweep = Sweep(collective="all_reduce", ranks=2)
    jobs = tuple(Job(name=name, hosts=one, sweep=sweep) for name, one in zip("ab", hosts, strict=True))
    session = Experiment(jobs=jobs, network=Network(topology="net.yaml"))
    assert [session.for_job(name).job.addresses for name in "ab"] == addresses
    with pytest.raises(ValueError, match="hosts: '3/2': write 1/2"):
        Job(hosts="3/2", sweep=sweep)
