from pathlib import Path

import pytest

from tests.support.skips import missing, need, skip_lines


def test_what_is_not_installed_comes_with_its_packages_each_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("shutil.which", lambda tool, path: tool if tool == "nft" else None)
    assert missing("nft") is None
    assert missing("slurmd", "srun", "nft", "sshd") == "not installed: apt-get install openssh-server slurm-wlm"
    need("nft")
    with pytest.raises(pytest.skip.Exception, match=r"apt-get install tcpdump$"):
        need("nft", "tcpdump")


def test_reasons_with_one_remedy_are_one_row_and_the_last_line_installs_everything() -> None:
    reasons = [
        *["no lab here: not installed: `apt-get install nftables ethtool`"] * 30,
        "needs Chromium and its driver: apt-get install chromium chromium-driver",
        *["takes 5 s: CHARKHA_FULL=1", "measures: CHARKHA_FULL=1 on a quiet machine"],
        *["no lab here: network namespaces need root", "capturing needs root"],
        "this host " + "x" * 200,
        "this host has an RDMA device",
    ]
    lines = list(skip_lines(reasons))
    assert [line.split()[:2] for line in lines[1:3]] == [["nftables", "ethtool"], ["time:", "measurements,"]]
    assert lines[1].split()[2:] == ["30", "apt-get", "install", "nftables", "ethtool"]
    assert lines[2].split()[-2:] == ["2", "CHARKHA_FULL=1"]
    assert next(line for line in lines if line.startswith("this host has an RDMA device")).split()[-1] == "1"
    assert [line.split() for line in lines if "root" in line] == [["root", "2", "needs", "root"]]
    assert max(map(len, lines)) < 120
    assert lines[-1] == "all of them: apt-get install chromium chromium-driver ethtool nftables"


def test_a_suite_that_left_nothing_out_has_no_table() -> None:
    assert list(skip_lines([])) == []
