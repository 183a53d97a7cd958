"""Windows and health of paths."""

import numpy as np

from emulator.roce.multipath.paths import (
    FIRST_REST_NS,
    LEAST_SILENCE_NS,
    LONGEST_REST_NS,
    LOSSES_TO_RETIRE,
    Health,
    PathColumns,
)


def test_the_last_path_is_never_retired() -> None:
    health = Health(2)
    assert health.retire(0, 5)
    assert not health.retire(1, 5)
    assert health.in_use == [1]


def test_a_retired_path_is_probed_less_and_less_often_until_it_answers() -> None:
    health, now, rests = Health(2), 0, []
    health.retire(0, now)
    for _ in range(5):
        rests.append(health.probe_ns[0] - now)
        now = health.probe_ns[0]
        assert health.due(now - 1) == []
        assert health.due(now) == [0]
    assert rests == [min(FIRST_REST_NS << tried, LONGEST_REST_NS) for tried in range(5)]
    assert health.answered(0)
    assert health.in_use == [0, 1]
    health.proved(0)
    health.retire(0, now)
    assert health.probe_ns[0] == now + FIRST_REST_NS


def test_a_window_halves_once_a_round_trip_and_grows_by_a_packet() -> None:
    paths = PathColumns(Health(2), most=100)
    paths.note_sent(0, 40, again=0, now=0)
    paths.note_lost(0, 1, 3)
    assert paths.window[0] == 28.0
    paths.note_lost(0, 1, 20)  # it was in flight at the first loss
    assert paths.window[0] == 28.0
    paths.note_acknowledged(np.zeros(28, np.int64), np.arange(28), 9)
    assert paths.window.tolist() == [29.0, 100.0]


def test_silence_counts_only_if_something_sent_later_was_answered() -> None:
    paths, later = PathColumns(Health(2), most=100), LEAST_SILENCE_NS + 1
    paths.note_sent(0, 1, again=0, now=0)
    assert paths.silent(0, later) == []
    assert paths.silent(1, LEAST_SILENCE_NS) == []
    assert paths.silent(1, later) == [0]


def test_a_path_that_only_loses_is_noticed() -> None:
    paths = PathColumns(Health(2), most=100)
    paths.note_sent(1, LOSSES_TO_RETIRE, again=0, now=0)
    paths.note_lost(1, LOSSES_TO_RETIRE, LOSSES_TO_RETIRE - 1)
    assert (paths.losing(0), paths.losing(1)) == ([], [1])
