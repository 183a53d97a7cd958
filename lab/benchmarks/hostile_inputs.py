"""Whether input made to cost much is read, or refused, in time and memory that grow no faster than it.

    python -m lab.benchmarks.hostile_inputs [--patterns | --files]

Every compiled pattern of the source searches texts made from it, each twice as long as the one before: a beginning
that fits, then one repeated part many times, then what does not fit. Every kind of file goes to `charkha` as files
that small bytes make expensive, at a size and at twice that size. Prints a line for each; exit code 1 if a command
takes more than 10 s or 1 GiB, or if a time grows faster than the input.
"""

from __future__ import annotations

import argparse
import gzip
import importlib
import io
import os
import pkgutil
import re
import resource
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

op, syntax = (importlib.import_module(f"re._{name}") for name in ("constants", "parser"))
MOST_S, MOST_BYTES = 10.0, 1 << 30
MIB = 1 << 20
_GROWTH = 3.0
"""Of the time when the input doubles: 2 is linear, 4 square."""
_SHORT_S = 0.02
"""Less cannot be told from the time of the start."""
_LONGEST = 1 << 17
_PROGRAM = ("import sys; from emulator.cli.main import main; sys.exit(main(sys.argv[1:]))",)


def patterns() -> dict[str, re.Pattern[Any]]:
    """Every pattern that a module of the source keeps, by module and name."""
    found = {}
    for package in ("emulator", "agents", "charkha"):
        module = importlib.import_module(package)
        for one in pkgutil.walk_packages(module.__path__, f"{package}."):
            if not one.name.endswith("__main__"):
                for name, value in vars(importlib.import_module(one.name)).items():
                    if isinstance(value, re.Pattern):
                        found[f"{one.name}.{name}"] = value
    return found


def attacks(pattern: re.Pattern[Any]) -> Iterator[tuple[str, str]]:
    """Texts as a beginning and what to repeat: a part of the pattern after what comes before it, or alone."""
    before = ""
    for token in syntax.parse(pattern.pattern, pattern.flags):
        for part in {_sample([token]), *(_sample(body) for body in _repeated([token]))} - {""}:
            yield from ((before, part), ("", part), ("", before + part))
        before += _sample([token])
    yield from (("", "a"), ("", "\n"), ("", " "))


def _repeated(tokens: Any) -> Iterator[Any]:
    for kind, value in tokens:
        if kind in (op.MAX_REPEAT, op.MIN_REPEAT):
            yield value[2]
            yield from _repeated(value[2])
        elif kind is op.SUBPATTERN:
            yield from _repeated(value[3])
        elif kind is op.BRANCH:
            for branch in value[1]:
                yield from _repeated(branch)


def _sample(tokens: Any) -> str:
    """A text that fits a part of a pattern."""
    text = ""
    for kind, value in tokens:
        if kind is op.LITERAL:
            text += chr(value)
        elif kind in (op.ANY, op.NOT_LITERAL):
            text += "a"
        elif kind is op.IN:
            text += _of_set(value)
        elif kind in (op.MAX_REPEAT, op.MIN_REPEAT):
            text += _sample(value[2]) * max(1, value[0])
        elif kind is op.SUBPATTERN:
            text += _sample(value[3])
        elif kind is op.BRANCH:
            text += _sample(value[1][0])
    return text


def _of_set(items: Any) -> str:
    if items[0][0] is op.NEGATE:
        return "z"
    kind, value = items[0]
    if kind is op.LITERAL:
        return chr(value)
    if kind is op.RANGE:
        return chr(value[0])
    return {op.CATEGORY_DIGIT: "1", op.CATEGORY_SPACE: " "}.get(value, "a")


def search_s(pattern: re.Pattern[Any], text: str, method: str) -> float:
    """Time to look through a whole text, s; `method`: of the pattern."""
    subject: Any = text.encode("utf-8", "replace") if isinstance(pattern.pattern, bytes) else text
    begin = time.process_time()
    getattr(pattern, method)(subject)
    return time.process_time() - begin


def _method(name: str) -> str:
    """How a module uses its pattern: anchored ones have one beginning to try."""
    module, _, variable = name.rpartition(".")
    source = Path(str(sys.modules[module].__file__)).read_text(encoding="utf-8")
    used = set(re.findall(rf"\b{variable}\.(\w+)\(", source))
    if used <= {"match", "fullmatch"} and used:
        return "match" if "match" in used else "fullmatch"
    return "search"


def growth(pattern: re.Pattern[Any], method: str) -> tuple[float, float]:
    """Of the worst text: growth of the time when it doubles (2 where all are too short to tell), and the time, s."""
    worst = (2.0, 0.0)
    for before, part in set(attacks(pattern)):
        size, last = 1 << 10, 0.0
        while size <= _LONGEST:
            text = before + part * (size // len(part)) + "\0"
            taken = min(search_s(pattern, text, method) for _ in range(2))
            if last > _SHORT_S:
                worst = max(worst, (taken / last, taken))
                break
            last, size = taken, size * 2
    return worst


def _varint(number: int) -> bytes:
    return bytes([number]) if number < 0x80 else bytes([number & 0x7F | 0x80]) + _varint(number >> 7)


def _frame(data: bytes) -> bytes:
    return _varint(len(data)) + data


def _packed(path: Path, data: bytes) -> None:
    path.write_bytes(gzip.compress(data, 9))


def _dependencies(folder: Path, size: int) -> None:
    node = b"\x22" + _frame(b"\x01" * (size << 5))
    _packed(folder / "t.0.et", _frame(b"") + b"".join(_frame(b"\x08" + _varint(i + 1) + node) for i in range(4)))


def _attributes(folder: Path, size: int) -> None:
    _packed(folder / "t.0.et", _frame(b"\x12\0" * (size << 4)) + _frame(b"\x08\x01"))


def _attributes_of_nodes(folder: Path, size: int) -> None:
    node = b"\x18\x05" + b"\x52\0" * (1 << 18)
    _packed(
        folder / "t.0.et", _frame(b"") + b"".join(_frame(b"\x08" + _varint(i + 1) + node) for i in range(size >> 14))
    )


def _text(name: str, make: Callable[[int], bytes]) -> Callable[[Path, int], None]:
    return lambda folder, size: (folder / name).write_bytes(make(size)) and None


def _members(folder: Path, size: int) -> None:
    text = b'{"schema":"1.0","pid":1,"time":"x","nodes":[]}'
    with tarfile.open(folder / "x.tar.gz", "w:gz") as archive:
        for number in range(size >> 4):
            member = tarfile.TarInfo(f"a{number}.json")
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text))


_CHECK = ("trace", "check", "{}", "--ranks", "1")
_PLAN = ("plan", "transformer-8r", "--topology", "{}/t.yaml")
FILES: Mapping[str, tuple[Sequence[str], Callable[[Path, int], None]]] = {
    "dependencies of a node": (_CHECK, _dependencies),
    "attributes of the metadata": (_CHECK, _attributes),
    "attributes of nodes": (_CHECK, _attributes_of_nodes),
    "log of one word": (_CHECK, _text("a.log", lambda size: b"a" * size)),
    "log of line ends": (_CHECK, _text("a.log", lambda size: b"MICRO" + b"\n" * size)),
    "Init lines of NCCL": (
        _CHECK,
        _text("a.log", lambda size: b"h:1:1 [0] NCCL INFO " * (size >> 6) + b"comm 0x1 rank 1 nranks 1 " * (size >> 5)),
    ),
    "settings of AICB": (_CHECK, _text("a.txt", lambda size: b"MICRO " + b"a" * size + b"\n1\nx\n")),
    "keys of JSON": (_CHECK, _text("a.json", lambda size: b"{" + b'"x":{"traceEvents":[]},' * size + b'"y":1}')),
    "numbers that JSON has none for": (_CHECK, _text("a.json", lambda s: b'{"traceEvents":[' + b'{"a":NaN},' * s)),
    "members of an archive": (("trace", "convert", "{}", "{}/out"), _members),
    "values of YAML": (_PLAN, _text("t.yaml", lambda size: b"[" + b"1," * (size * 32) + b"]")),
    "nested YAML": (_PLAN, _text("t.yaml", lambda size: b"[" * size)),
    "hosts of YAML": (_PLAN, _text("t.yaml", lambda size: b"name: x\nhosts:\n" + b"- {name: a}\n" * size)),
    "sexagesimals of YAML": (_PLAN, _text("t.yaml", lambda size: b"name: x\nhosts: 1" + b":59" * size + b".5\n")),
}


def cost(command: Sequence[str]) -> tuple[int, float, int]:
    """Exit code, time in s of the CPU, and most memory in bytes of a command."""
    limit = (MOST_BYTES * 4, MOST_BYTES * 4)
    with subprocess.Popen(
        [sys.executable, "-P", "-c", *_PROGRAM, *command],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, limit),
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
    ) as process:
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode, used.ru_utime + used.ru_stime, used.ru_maxrss << 10


def files() -> bool:
    """Measure every kind of file; whether all is well."""
    is_well = True
    start_s = cost(["--version"])[1]
    for name, (command, make) in FILES.items():
        found = []
        for size in (1 << 15, 1 << 16, 1 << 17):
            with tempfile.TemporaryDirectory(prefix="charkha-hostile-") as folder:
                make(Path(folder), size)
                found.append(cost([one.replace("{}", folder) for one in command]))
        codes, times, memory = zip(*found, strict=True)
        is_slow = times[-1] > MOST_S or (times[-1] - start_s) > max(1.0, _GROWTH * (times[-2] - start_s))
        is_good = not is_slow and max(memory) < MOST_BYTES and set(codes) <= {0, 2}
        is_well &= is_good
        shown = ", ".join(f"{one:.1f}" for one in times)
        print(
            f"{'ok ' if is_good else 'BAD'} {name}: exit {codes[-1]}, {shown} s, {max(memory) // MIB} MiB", flush=True
        )
    return is_well


def searches() -> bool:
    """Measure every pattern; whether all is well."""
    is_well = True
    for name, pattern in sorted(patterns().items()):
        times, taken_s = growth(pattern, _method(name))
        is_well &= (is_good := times < _GROWTH)
        print(
            f"{'ok ' if is_good else 'BAD'} {name}: {times:.1f} times for twice the text ({taken_s:.3f} s)", flush=True
        )
    return is_well


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--patterns", action="store_true", help="only patterns")
    parser.add_argument("--files", action="store_true", help="only files")
    args = parser.parse_args()
    results = [part() for part, is_left_out in ((searches, args.files), (files, args.patterns)) if not is_left_out]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
