"""Requests of a file of Mooncake's format on loopback: what crosses is the closed form, and requests have times."""

import json
from pathlib import Path

from emulator.annexes.workloads.mooncake import read_requests
from emulator.results.run_folder.reader import read_run
from emulator.results.run_folder.schema import RunTable
from emulator.results.statistics.samples.measured_rows import to_ints
from tests.support.command import answer, charkha

TOKEN = 70_272
"""Bytes of a token of DeepSeek-R1."""


def _write(path: Path) -> None:
    """Twelve requests in blocks of four tokens; a third of them opens with what one before them had."""
    lines = []
    for number in range(12):
        length = 5 + 3 * number % 11
        blocks = [-1 - number % 4, *range(100 * number, 100 * number + -(-length // 4) - 1)]
        lines.append({"timestamp": 4 * number, "input_length": length, "output_length": 2, "hash_ids": blocks})
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))


def test_a_file_of_requests_plays_and_moves_what_no_cache_held(tmp_path: Path) -> None:
    _write(tmp_path / "requests.jsonl")
    pools = ("--prefill", 2, "--decode", 2, "--decode-tensor", 2, "--model", "deepseek-r1", "--prefix-cache", "pool")
    options = (*pools, "--block-tokens", 4, "--tflops", 50_000, "--out", "trace", "--json")
    made = answer("trace", "generate", "inference", "--trace", "requests.jsonl", *options, cwd=tmp_path)
    answer("trace", "check", "trace", cwd=tmp_path)
    played = charkha(
        *(
            "run",
            "trace",
            "--transport",
            "zmq",
            "--agents",
            1,
            "--iterations",
            2,
            "--warmup",
            0,
            "--out",
            "run",
            "--json",
        ),
        cwd=tmp_path,
    )
    assert played.code in (0, 7), played.stderr  # 7: no rules decide

    requests = read_requests(tmp_path / "requests.jsonl", block_tokens=4)
    hits = 12 - 4  # each of the four first blocks is new once
    expected = 2 * TOKEN * (sum(one.input_length for one in requests) - 4 * hits)  # a copy for each decode rank
    traffic = {entry["operation"]: entry["total_bytes"] for entry in json.loads(made.stdout)["traffic"]}
    assert traffic == {"send": expected, "recv": expected}
    samples = read_run(tmp_path / "run").table(RunTable.SAMPLES)
    assert int(to_ints(samples["bytes_received"]).sum()) == int(to_ints(samples["bytes_sent"]).sum()) == 2 * expected

    transfers = json.loads(played.stdout)["transfers"]
    assert (transfers["requests"], transfers["incomplete_requests"], transfers["flows"]) == (24, 0, 48)
    assert 0 < transfers["fct"]["p50_ns"] <= transfers["kv_latency"]["max_ns"] <= transfers["ttft"]["max_ns"]
