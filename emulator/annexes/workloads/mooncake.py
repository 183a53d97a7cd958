"""Requests as Mooncake publishes them: JSON lines with arrival, lengths, and the hashes of the prompt's blocks.

Format: Qin et al., Mooncake, FAST'25, and the README of its traces: `timestamp` in ms, `input_length` and
`output_length` in tokens, `hash_ids` a number per block of 512 tokens. Bailian's traces (alibaba-edu,
qwen-bailian-usagetraces-anon) are the same with a `chat_id`, times in seconds and blocks of 16 tokens. Other keys are
left alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TextIO

import msgspec

from emulator.annexes.workloads.inference import Request
from emulator.errors import HostError, InputError
from emulator.schema import SchemaProblem, decode
from emulator.units import US_PER_MS, US_PER_S

LONGEST_LINE = 16 << 20
"""Characters of a line; a prompt of a million tokens takes some 20,000."""
MOST_TOKENS = 1 << 32


class _RequestLine(msgspec.Struct):
    timestamp: int | float
    input_length: int
    output_length: int
    hash_ids: list[int] = []
    chat_id: int | str | None = None

    @property
    def at_micros(self) -> float:
        """Arrival; a trace of Bailian, which numbers its chats, has seconds."""
        return self.timestamp * (US_PER_MS if self.chat_id is None else US_PER_S)


def read_requests(path: Path, *, block_tokens: int, most: int | None = None) -> list[Request]:
    """The requests of a file, in its order.

    Args:
        most: of the first requests; None: all.

    Raises:
        InputError: a line is no such request, or arrives before the one above it; names file, line and key.
        HostError: the file cannot be read.
    """
    try:
        with path.open(encoding="utf-8") as file:
            return list(islice(_requests(path, file, block_tokens), most))
    except FileNotFoundError as error:
        raise InputError(f"there is no file {path}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: byte {error.start} is no UTF-8: JSON lines are needed") from error
    except OSError as error:
        raise HostError(f"cannot read {path}: {error.strerror}") from error


def _requests(path: Path, file: TextIO, block_tokens: int) -> Iterator[Request]:
    before = 0.0
    number = 0
    while text := file.readline(LONGEST_LINE):
        number += 1
        if text.strip():
            line = _line(text, where=f"{path}, line {number}", block_tokens=block_tokens)
            if line.at_micros < before:
                raise InputError(
                    f"{path}, line {number}: timestamp {line.timestamp} is before that of the request above it: "
                    "sort the file by arrival"
                )
            before = line.at_micros
            yield Request(round(line.at_micros), line.input_length, line.output_length, tuple(line.hash_ids))


def _line(text: str, *, where: str, block_tokens: int) -> _RequestLine:
    try:
        line = decode(msgspec.json.decode(text), _RequestLine)
    except SchemaProblem as problem:
        raise InputError(f"{where}: {_variant(text) or problem}") from problem
    except msgspec.DecodeError as error:
        raise InputError(f"{where}: not JSON: {error}") from error
    except RecursionError as error:
        raise InputError(f"{where}: nested too deeply for a request") from error
    for key, least, most in (
        ("timestamp", 0, 1e15),
        ("input_length", 1, MOST_TOKENS),
        ("output_length", 0, MOST_TOKENS),
    ):
        if not least <= getattr(line, key) <= most:
            raise InputError(f"{where}: {key} is {getattr(line, key)}: it must be from {least} to {most:g}")
    blocks = -(-line.input_length // block_tokens)
    if line.hash_ids and len(line.hash_ids) != blocks:
        raise InputError(
            f"{where}: {len(line.hash_ids)} hash_ids, but {line.input_length} tokens are {blocks} blocks of "
            f"{block_tokens} (--block-tokens)"
        )
    return line


def _variant(text: str) -> str | None:
    """What is wrong with a request as other tools write it; None: it is none."""
    said = msgspec.json.decode(text)
    if not isinstance(said, dict):
        return None
    if "input_length" not in said:
        prompt = next((key for key in ("text_input", "messages", "payload") if key in said), None)
        return prompt and f"has its prompt as {prompt} and no input_length: give its number of tokens"
    if "timestamp" not in said and "delay" in said:
        sessions = "a delay after the answer to the turn before it, as in the sessions of AIPerf and Dynamo"
        return f"has {sessions}, which no file dates, and no timestamp: give every request its arrival, in ms"
    return None if "output_length" in said else "has no output_length: give every request one, 0 for no answer"
