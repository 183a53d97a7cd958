import pytest

from emulator.experiment.spec.parts import build_experiment, merge, part_of
from emulator.schema import SchemaProblem

SWEEP = {"job": {"sweep": {"collective": "all_reduce", "ranks": 4}}}


def test_of_two_parts_the_second_wins_and_the_rest_stays() -> None:
    base = {"network": {"topology": "a", "lab": "x"}, "seed": 1}
    assert merge(base, {"network": {"topology": "b"}}) == {"network": {"topology": "b", "lab": "x"}, "seed": 1}
    assert base["network"] == {"topology": "a", "lab": "x"}


def test_a_list_is_replaced_as_a_whole() -> None:
    assert merge({"sizes": [1, 2]}, {"sizes": [3]}) == {"sizes": [3]}


def test_a_part_with_a_job_makes_a_run_spec() -> None:
    experiment = build_experiment(merge(SWEEP, {"job": {"iterations": 3}, "seed": 7}))
    assert (experiment.job.iterations, experiment.job.sweep.ranks, experiment.seed) == (3, 4, 7)


@pytest.mark.parametrize(
    ("over", "path"),
    [
        ({"job": {"iterations": 0}}, ("job", "iterations")),
        ({"job": {"sweep": {"ranks": "many"}}}, ("job", "sweep", "ranks")),
        ({"network": {"mtu": 1}}, ("network", "mtu")),
    ],
)
def test_an_error_has_the_path_of_the_value_in_the_part(over: dict, path: tuple) -> None:
    with pytest.raises(SchemaProblem) as caught:
        build_experiment(merge(SWEEP, over))
    assert caught.value.path == path


def test_what_is_given_beside_jobs_holds_for_each_and_iterations_for_those_that_have_a_number() -> None:
    trace = {"trace": {"path": "t"}}
    jobs = [{**trace, "name": "a"}, {**trace, "name": "b", "until": "others"}]
    built = build_experiment({"jobs": jobs, "job": {"iterations": 7, "pace": "continuous"}})
    assert [(job.name, job.iterations, job.pace) for job in built.jobs] == [
        ("a", 7, "continuous"),
        ("b", None, "continuous"),
    ]
    assert part_of(built)["jobs"][0]["iterations"] == 7
