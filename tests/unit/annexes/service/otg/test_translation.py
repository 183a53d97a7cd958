"""Every field of the proposed model changes what is played, or is refused by its path."""

import json
from typing import Any

import pytest

from emulator.annexes.service.model import Refusal
from emulator.annexes.service.otg.driving import check_places
from emulator.annexes.service.otg.measured import COLUMNS
from emulator.annexes.service.otg.model import Config, MetricsRequest
from emulator.annexes.service.otg.translation import REFUSED, arrived, stage_runs
from emulator.errors import InputError
from emulator.experiment.spec.document import to_yaml
from tests.support.command import ROOT
from tests.support.otg import COMMUNICATOR, CONNECTION, FIELDS, STAGE, changed, configuration


def played(document: dict[str, Any], topology: str | None = "any.yaml") -> tuple[object, ...]:
    """All that a run, its name, its repetitions and its metrics are made of."""
    config = arrived(document, Config)
    runs = [(run.stage.name, to_yaml(run.experiment)) for run in stage_runs(config, topology=topology)]
    return runs, config.ccl.name, config.ccl.stage_loop_count, config.ccl.iteration_recording


def outcome(document: dict[str, Any]) -> object:
    """What is played, or why nothing is."""
    try:
        for run in stage_runs(arrived(document, Config), topology=None):
            check_places(run, run.experiment, STAGE)
        return played(document)
    except InputError as refusal:
        return str(refusal)


@pytest.mark.parametrize("path", FIELDS)
def test_a_field_arrives_or_is_refused_by_its_path(path: str) -> None:
    found = outcome(changed(path, FIELDS[path]))
    if isinstance(found, str):
        above, _, name = path.rpartition(".")
        assert above in found
        assert name in found or "threshold: write 0" in found
    else:
        assert found != played(configuration())


def test_a_configuration_as_a_run_spec() -> None:
    document = changed(f"{CONNECTION}.reliable_connection", {"dscp": 30})
    document["ccl"]["stages"][0]["communicators"][0]["rocev2"]["chunk_size_kb"] = 64
    document["devices"].append({"name": "h2"})
    rate = {"choice": "mbps", "mbps": "100"}
    ends = {"choice": "device", "device": {"tx_names": ["h2"], "rx_names": ["h0"]}}
    document["flows"] = [{"name": "burst", "tx_rx": ends, "rate": rate, "duration": {"choice": "continuous"}}]
    document["ccl"]["stages"][0]["bg_flow_names"] = ["burst"]
    (run,) = stage_runs(arrived(document, Config), topology="rack7")
    assert run.experiment.to_plain() == {
        "charkha": 1,
        "jobs": [
            {
                "name": "tp",
                "sweep": {"collective": "all_reduce", "ranks": 2, "sizes": [125_000]},
                "iterations": 2,
                "warmup": 0,
                "algorithms": {"all_reduce": "ring"},
                "hosts": ["h0", "h1"],
                "pace": "continuous",
                "transport": {
                    "name": "roce",
                    "message_bytes": 65_536,
                    "options": {"qps": 1, "path_mtu": 4096, "dscp": 30, "ecn": "ect1"},
                },
            }
        ],
        "background": [{"name": "burst", "from": ["h2"], "to": ["h0"], "rate": 100_000_000, "pattern": "constant"}],
        "network": {"topology": "rack7"},
    }


def test_communicators_of_a_stage_play_at_once_and_stages_one_after_the_other() -> None:
    document = configuration()
    stages = document["ccl"]["stages"]
    document["devices"] += [{"name": "h2"}, {"name": "h3"}]
    other = {**stages[0]["communicators"][0], "name": "ep", "device_names": ["h2", "h3"]}
    other["algorithm"] = {"choice": "all_to_all_direct"}
    stages.append({**stages[0], "name": "next", "communicators": [*stages[0]["communicators"], other]})
    runs = stage_runs(arrived(document, Config), topology=None)
    jobs = [[(job.name, job.sweep and job.sweep.collective, job.hosts) for job in run.experiment.jobs] for run in runs]
    assert jobs == [[("tp", "all_reduce", None)], [("tp", "all_reduce", None), ("ep", "all_to_all", None)]]


@pytest.mark.parametrize(
    ("path", "value", "problem"),
    [
        ("devices", [{"name": "h0"}, {"name": "h0"}], "devices: 'h0' is given twice"),
        (f"{COMMUNICATOR}.device_names", ["h0", "h7"], "device_names: 'h7' is not configured"),
        (f"{STAGE}.duration", {"fixed_iterations": {"count": 2}}, "fixed_iterations: the key 'interval_ms' is missing"),
        (f"{COMMUNICATOR}.generation.data_size_unit", "kilobyte", "data_size_unit: 'kilobyte' is not one of gigabit"),
        (f"{STAGE}.algorithm", {"choice": "dual_tree", "phase": "all_gather"}, "no phase all_gather of dual_tree"),
        ("ccl.stage_loop_count", 100, "stage_loop_count: expected int <= 99"),
        ("ccl.iteration_recording", {"enable": True}, "iteration_recording: jct_percent_threshold: write 0"),
    ],
)
def test_what_cannot_be_played(path: str, value: Any, problem: str) -> None:
    with pytest.raises(Refusal) as refusal:
        played(changed(path, value))
    assert problem in str(refusal.value)


def test_flows_need_a_topology_and_a_stage() -> None:
    ends = {"device": {"tx_names": ["h0"], "rx_names": ["h1"]}}
    document = configuration() | {"flows": [{"name": "burst", "tx_rx": ends, "rate": {"percentage": 10}}]}
    with pytest.raises(Refusal, match="no stage names 'burst'"):
        played(document)
    document["ccl"]["stages"][0]["bg_flow_names"] = ["burst"]
    with pytest.raises(Refusal, match="needs a device with a topology"):
        played(document, topology=None)
    with pytest.raises(Refusal, match=r"flows\[0\].packet: the run spec sets"):
        played(document | {"flows": [{**document["flows"][0], "packet": []}]})
    assert "rate: 10 %" in str(played(document))


PAGE = (ROOT / "docs" / "otg.md").read_text()
PASSING = {path: one.only for path, one in REFUSED.items() if one.only is not None and path.startswith("ccl.")}


@pytest.mark.parametrize("path", [path for path in PASSING if path != "ccl.include_loop_metrics"])
def test_a_value_that_asks_for_nothing_passes(path: str) -> None:
    assert arrived(changed(path.replace("[]", "[0]"), PASSING[path]), Config).ccl.name == "demo"


def test_loops_are_summed() -> None:
    arrived({"choice": "ccl", "ccl": {"include_loop_metrics": False}}, MetricsRequest)
    with pytest.raises(Refusal, match=r"ccl\.include_loop_metrics: loops are summed"):
        arrived({"choice": "ccl", "ccl": {"include_loop_metrics": True}}, MetricsRequest)


def test_numbers_are_not_truth_values() -> None:
    with pytest.raises(Refusal, match=r"tail_latency_cdf\.enable"):
        arrived(changed("ccl.tail_latency_cdf.enable", 0), Config)


def test_unknown_keys() -> None:
    with pytest.raises(Refusal, match=r"tail_latency_cdf\.enabled: unknown key"):
        arrived(changed("ccl.tail_latency_cdf.enabled", False), Config)
    with pytest.raises(Refusal, match="ccl: unknown key 'stagez'"):
        arrived(changed("ccl.stagez", []), Config)


def test_deep_documents() -> None:
    deep: list[object] = []
    for _ in range(5000):
        deep = [deep]
    with pytest.raises(Refusal, match="nested too deeply"):
        arrived(configuration() | {"devices": deep}, Config)


def test_the_page_lists_what_is_refused_and_what_is_measured() -> None:
    for path, one in REFUSED.items():
        passes = "" if one.only is None else f"`{json.dumps(one.only).strip(chr(34))}`"
        assert f"| `{path}` | {passes} | {one.why} |" in PAGE
    assert [name for name in COLUMNS if f"`{name}`" not in PAGE] == []
