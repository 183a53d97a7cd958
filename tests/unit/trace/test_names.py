"""Names of collectives, and the spellings of NCCL and MPI."""

import pytest

from emulator.trace.meaning.model import CommKind
from emulator.trace.meaning.names import COLLECTIVES, key_value_name, parse_class_name, parse_collective, request_of


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("all_reduce", CommKind.ALL_REDUCE),
        ("allreduce", CommKind.ALL_REDUCE),
        ("all-reduce", CommKind.ALL_REDUCE),
        ("AllReduce", CommKind.ALL_REDUCE),
        ("ncclAllReduce", CommKind.ALL_REDUCE),
        ("MPI_Allreduce", CommKind.ALL_REDUCE),
        ("all_reduce_perf", CommKind.ALL_REDUCE),
        ("alltoall", CommKind.ALL_TO_ALL),
        ("reducescatter", CommKind.REDUCE_SCATTER),
        ("MPI_Reduce_scatter_block", CommKind.REDUCE_SCATTER_BLOCK),
        ("allgather", CommKind.ALL_GATHER),
        ("MPI_Bcast", CommKind.BROADCAST),
    ],
)
def test_the_spellings_of_nccl_and_mpi_are_known(text: str, kind: CommKind) -> None:
    assert parse_collective(text) is kind


@pytest.mark.parametrize("name", COLLECTIVES)
def test_every_collective_is_known_with_and_without_underscores(name: str) -> None:
    assert {parse_class_name(name.replace("_", sign)) for sign in ("_", "-", "")} == {name}


@pytest.mark.parametrize("text", ["sendrecv", "send-recv", "send_recv"])
def test_a_pair_is_a_class_but_not_a_collective(text: str) -> None:
    assert parse_class_name(text) == "send_recv"
    with pytest.raises(ValueError, match=f"'{text}' is not a collective but a pair of ranks; choose from all_reduce"):
        parse_collective(text)


@pytest.mark.parametrize(
    ("text", "advice"), [("allredcue", "did you mean 'all_reduce'"), ("", "choose from all_reduce, reduce, all_gather")]
)
def test_an_unknown_name_is_refused_with_a_known_one(text: str, advice: str) -> None:
    with pytest.raises(ValueError, match=f"there is no collective '{text}'; {advice}"):
        parse_collective(text)


def test_names_are_read_back() -> None:
    assert key_value_name(12, 5, is_send=True) == "request.12.kv.to.5"
    assert key_value_name(12, 5, is_send=False) == "request.12.kv.from.5"
    assert request_of(key_value_name(12, 5, is_send=True)) == request_of(key_value_name(12, 5, is_send=False)) == 12


@pytest.mark.parametrize("name", ["request.12.prefill", "request.x.kv.to.5", "request.1.kv.to.5.all_reduce", ""])
def test_other_names_name_no_request(name: str) -> None:
    assert request_of(name) is None
