"""`charkha bench`: its arguments as a run spec."""

import pytest
import yaml

from emulator.cli.main import main


@pytest.mark.parametrize(
    ("words", "sweep"),
    [
        (["alltoall", "-n", "4"], {"collective": "all_to_all", "ranks": 4}),
        (["sendrecv", "-n", "4"], {"collective": "send_recv", "ranks": 4}),
        (["all_reduce", "-n", "2", "-b", "1K,4K,1MB"], {"sizes": [1024, 4096, 10**6]}),
        (["all_reduce", "-n", "2", "--sizes", "8"], {"sizes": [8]}),
        (["all_reduce", "-n", "2", "-b", "64MB", "-f", "1.5"], {"min_bytes": 64 * 10**6, "factor": 1.5}),
        (["all_reduce", "-n", "2", "-e", "4M", "-i", "1M"], {"max_bytes": 4 << 20, "step_bytes": 1 << 20}),
    ],
)
def test_options_of_nccl_tests_become_a_sweep(
    words: list[str], sweep: dict[str, object], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", *words, "--print-spec"]) == 0
    (job,) = yaml.safe_load(capsys.readouterr().out)["jobs"]
    assert sweep.items() <= job["sweep"].items()


def test_warm_up_has_the_letter_of_nccl_tests(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "all_reduce", "-n", "2", "-w", "7", "--print-spec"]) == 0
    assert yaml.safe_load(capsys.readouterr().out)["jobs"][0]["warmup"] == 7
