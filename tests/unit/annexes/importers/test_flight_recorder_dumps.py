"""Pickles of plain values are read as pickle reads them; every other one is refused, and nothing of it is run."""

import io
import os
import pickle
import subprocess
import tracemalloc
from collections import OrderedDict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulator.annexes.importers.flight_recorder_dumps import PickleProblem, load_plain
from tests.support.full import examples

LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-(1 << 100), 1 << 100)
    | st.floats(allow_nan=False)
    | st.text(max_size=300)
    | st.binary(max_size=300)
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=30,
)


@settings(max_examples=examples(200), deadline=None)
@given(value=VALUES, protocol=st.sampled_from([4, 5]))
def test_plain_values_are_read_as_pickle_reads_them(value: Any, protocol: int) -> None:
    assert load_plain(pickle.dumps(value, protocol)) == value


def test_older_protocols_and_sets_are_read() -> None:
    value = {"a": [1, -2, 1 << 40, 2.5, True, None, ("x",), "é"], "b": {"c": []}}
    for protocol in range(6):
        if protocol:  # text protocol: strings are lines with escapes, which no dump uses
            assert load_plain(pickle.dumps(value, protocol)) == value
    assert load_plain(pickle.dumps({1, 2}, 4)) == {1, 2}


class Runs:
    """Its pickle makes a file when it is loaded."""

    def __init__(self, call: Any, *arguments: Any) -> None:
        self.made = (call, arguments)

    def __reduce__(self) -> Any:
        return self.made


def hostile(path: Path) -> list[bytes]:
    name = str(path).encode()
    makes = [Runs(os.system, f"touch {path}"), Runs(open, str(path), "w"), Runs(subprocess.call, ["touch", str(path)])]
    pickles = [pickle.dumps({"entries": [one]}, protocol) for one in makes for protocol in range(6)]
    return [
        *pickles,
        b"cos\nsystem\n(S'touch " + name + b"'\ntR.",  # GLOBAL, REDUCE
        b"(S'touch " + name + b"'\nios\nsystem\n.",  # INST
        b"(cos\nsystem\nS'touch " + name + b"'\no.",  # OBJ
        b"\x80\x04\x8c\x02os\x94\x8c\x06system\x94\x93\x94\x8c\x04true\x85R.",  # STACK_GLOBAL
        b"\x80\x02}q\x00\x82\x01.",  # EXT1
        b"Pabc\n.",  # PERSID
        b"\x80\x02K\x01Q.",  # BINPERSID
        b"\x80\x02]}b.",  # BUILD
        b"\x80\x05\x97.",  # NEXT_BUFFER
        pickle.dumps(OrderedDict(a=1)),
        pickle.dumps(len),
    ]


def test_a_hostile_pickle_runs_nothing(tmp_path: Path) -> None:
    for data in hostile(tmp_path / "made"):
        with pytest.raises(PickleProblem, match=r"something other than plain values|corrupt|ends too early"):
            load_plain(data)
    assert not (tmp_path / "made").exists()


def test_the_hostile_pickles_are_real(tmp_path: Path) -> None:
    pickle.load(io.BytesIO(hostile(tmp_path / "made")[2]))
    assert (tmp_path / "made").exists()


def sharing_bomb(levels: int) -> bytes:
    """Lists that hold the one before twice: small, and 2^levels values when they are walked through."""
    value: Any = [1]
    for _ in range(levels):
        value = [value, value]
    return pickle.dumps(value)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (sharing_bomb(60), "unfolds to more values than its size allows"),
        (b"\x80\x04" + b"]" * 200 + b"a" * 199 + b".", "nested too deeply"),
        (b"\x80\x02]q\x00h\x00a.", "changes a value that it has already used"),
        (b"\x80\x04\x8d" + (1 << 60).to_bytes(8, "little") + b"x.", "ends too early"),
        (b"\x80\x05\x96" + (1 << 40).to_bytes(8, "little") + b".", "ends too early"),
        (b"\x80\x02\x8b" + (1 << 30).to_bytes(4, "little") + b".", "ends too early"),
        (b"\x80\x02\x8b\xff\xff\xff\xff.", "ends too early"),
        (b"\x80\x02K\x01r\xff\xff\xff\x7f0.", "ends with unused values"),
        (b"\x80\x02(K\x01u.", "has a key without a value"),
        (b"\x80\x02K\x01K\x02s.", "adds to something that is no dict"),
        (b"\x80\x02(K\x01\x86.", "takes a value that is not there"),
        (b"\x80\x02}]K\x01s.", "is corrupt, .* unhashable type"),
        (b"\x80\x02h\x05.", "uses a value that it has not kept"),
        (b"\x80\x02X\x02\x00\x00\x00\xff\xff.", "is corrupt"),
        (b"", "ends too early"),
    ],
)
def test_bombs_and_damage_are_refused_without_memory(data: bytes, said: str) -> None:
    tracemalloc.start()
    with pytest.raises(PickleProblem, match=said):
        load_plain(data)
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak_bytes < 1 << 20


def test_the_offset_is_that_of_the_opcode() -> None:
    with pytest.raises(PickleProblem) as caught:
        load_plain(b"\x80\x02K\x01cos\nsystem\n.")
    assert caught.value.offset == 4
