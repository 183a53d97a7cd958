import pytest
from msgspec.structs import replace

from emulator.annexes.series.sweep_grid import GridSweep, check_points, make_sweep, parse_axis
from emulator.errors import InputError
from emulator.experiment.settle.workload import LatestJobs
from emulator.experiment.spec.spec import Campaign, Experiment, Job
from emulator.experiment.spec.spec import Sweep as Sizes

BASE = Experiment(jobs=(Job(sweep=Sizes(collective="all_reduce", ranks=2, sizes=("1K",))),))


def sweep(*axes: str, base: Experiment = BASE) -> GridSweep:
    return make_sweep(base, [parse_axis(text, base) for text in axes])


def test_several_settings_make_every_combination() -> None:
    found = sweep("qps=1,2", "dscp=0,26")
    assert [str(point) for point in found.points] == [
        "qps=1, dscp=0",
        "qps=1, dscp=26",
        "qps=2, dscp=0",
        "qps=2, dscp=26",
    ]
    assert [point.folder for point in found.points][:2] == ["qps=1/dscp=0", "qps=1/dscp=26"]
    assert [point.experiment.network.transport.options for point in found.points][2] == {"qps": 2, "dscp": 0}


def test_points_take_turns() -> None:
    found = sweep("qps=1,2", base=replace(BASE, campaign=Campaign(repeat=2)))
    assert [str(turn) for turn in found.turns] == ["qps=1 01", "qps=2 01", "qps=1 02", "qps=2 02"]
    assert found.turns[1].experiment == found.points[1].experiment
    assert found.turns[1].experiment.campaign is None


def test_folders_are_safe_and_differ() -> None:
    found = sweep("topology=a/b.yaml,a_b.yaml,../x.yaml")
    assert [point.folder for point in found.points] == [
        "topology=a_b.yaml",
        "topology=a_b.yaml-2",
        "topology=.._x.yaml",
    ]


@pytest.mark.parametrize(
    ("axes", "problem"),
    [
        (["qps=1", "transport.options.qps=2"], "this setting varies twice"),
        (["iterations=1,x"], "point iterations=x: 'x': give a whole number"),
        (["seed=1:100:1", "dscp=1:20:1"], "more than 1,000 points"),
    ],
)
def test_a_grid_that_cannot_be_made_is_refused(axes: list[str], problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        sweep(*axes)


@pytest.mark.parametrize("campaign", [Campaign(), Campaign(repeat=2, profiles=("a", "b"))])
def test_repeats_are_a_number_and_profiles_an_axis(campaign: Campaign) -> None:
    with pytest.raises(InputError, match="needs a number of runs"):
        sweep("qps=1", base=replace(BASE, campaign=campaign))


@pytest.mark.parametrize(
    ("axis", "problem"),
    [
        ("qps=1,99", "point qps=99: 99: from 1 to 64"),
        ("transport=roce,tcp", "point transport=tcp: there is no 'tcp'; choose from roce, zmq, verbs"),
        ("all_reduce=ring,rong", "point all_reduce=rong: all_reduce has no algorithm 'rong'"),
        ("topology=none.yaml", "point topology=none.yaml: none.yaml: cannot be read"),
        ("path-mtu=1024,1500", "point path_mtu=1500: 1500: there are 256"),
    ],
)
def test_a_point_that_cannot_be_played_is_named_before_any_traffic(axis: str, problem: str) -> None:
    with LatestJobs() as jobs, pytest.raises(InputError, match=problem):
        check_points(sweep(axis), jobs)


def test_points_with_the_same_job_load_it_once() -> None:
    steps: list[str] = []
    with LatestJobs() as jobs:
        check_points(sweep("qps=1,2"), jobs, on_step=steps.append)
        assert jobs.load(BASE.jobs) is jobs.load(BASE.jobs)
        other = replace(BASE.job, sweep=Sizes(collective="barrier", ranks=2))
        assert jobs.load(BASE.jobs) is not jobs.load((other,))
    assert steps == ["checking point 1 of 2: qps=1", "checking point 2 of 2: qps=2"]
