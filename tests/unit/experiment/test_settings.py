import pytest

from emulator.errors import InputError
from emulator.experiment.spec.flow_spec import PerftestFlow
from emulator.experiment.spec.settings import find_setting, with_setting
from emulator.experiment.spec.spec import Experiment, Job, Network, Sweep, Trace, Transport
from emulator.schema import SchemaProblem

BENCH = Experiment(jobs=(Job(sweep=Sweep(collective="all_reduce", ranks=2, min_bytes="1K", max_bytes="4K")),))
OF_TRACE = Experiment(jobs=(Job(trace=Trace(path="t")),))


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("qps", "network.transport.options.qps"),
        ("message-bytes", "network.transport.message_bytes"),
        ("window", "network.transport.options.window_bytes"),
        ("path-mtu", "network.transport.options.path_mtu"),
        ("dscp", "network.transport.options.dscp"),
        ("flow-rate", "network.transport.options.flow_rate_bps"),
        ("size", "job.sweep.sizes"),
        ("transport", "network.transport.name"),
        ("all_reduce", "job.algorithms.all_reduce"),
        ("timeout", "timeout_s"),
        ("job.iterations", "job.iterations"),
        ("transport.options.qps", "network.transport.options.qps"),
    ],
)
def test_a_setting_is_found_by_its_last_word(name: str, path: str) -> None:
    assert find_setting(name, BENCH) == path


def test_settings_of_another_kind_of_job_are_not_there() -> None:
    assert find_setting("scale-bytes", OF_TRACE) == "job.trace.scale_bytes"
    with pytest.raises(InputError, match="--vary size: this run spec has no such setting"):
        find_setting("size", OF_TRACE)
    with pytest.raises(InputError, match="did you mean 'qps'"):
        find_setting("qsp", OF_TRACE)


def test_a_word_that_two_settings_end_with_is_refused() -> None:
    flow = PerftestFlow(host="h0", peer="h1")
    both = Experiment(jobs=OF_TRACE.jobs, flows=(flow,), network=Network(topology="x.yaml"))
    with pytest.raises(InputError, match=r"short for network.transport.options.qps and flows\[0\].qps: write more"):
        find_setting("qps", both)
    assert with_setting(both, find_setting("flows[0].qps", both), "3").flows[0].qps == 3


def test_values_are_read_as_a_run_spec_file_reads_them() -> None:
    assert with_setting(BENCH, "job.credits", "off").job.credits is False
    assert with_setting(BENCH, "job.compute", "1/2").job.compute == "1/2"
    assert with_setting(BENCH, "network.transport.message_bytes", "64K").network.transport.message_bytes == 65_536
    assert with_setting(BENCH, "network.transport.options.qps", "2").network.transport.options == {"qps": 2}
    assert with_setting(BENCH, "timeout_s", "2").timeout_s == 2


def test_a_size_takes_the_place_of_a_range() -> None:
    found = with_setting(BENCH, "job.sweep.sizes", "64K").job.sweep
    assert found == Sweep(collective="all_reduce", ranks=2, sizes=(65_536,))
    assert BENCH.job.sweep.bounds == (1024, 4096)


def test_other_settings_stay() -> None:
    base = Experiment(jobs=BENCH.jobs, network=Network(transport=Transport(options={"dscp": 3, "qps": 8})))
    changed = with_setting(base, "network.transport.options.qps", "1")
    assert changed.network.transport.options == {"dscp": 3, "qps": 1}
    assert changed.jobs == base.jobs


def test_a_value_that_does_not_fit_is_refused() -> None:
    with pytest.raises(SchemaProblem, match=r"^'many': give a whole number of at least 1$"):
        with_setting(BENCH, "job.iterations", "many")
