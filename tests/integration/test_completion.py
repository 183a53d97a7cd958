"""Completion as bash does it."""

import shutil
import subprocess

import pytest

from emulator.cli.main import main

COMPLETE = """\
source /dev/stdin <<'SCRIPT'
{script}
SCRIPT
COMP_WORDS=({words})
COMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 ))
_shtab_charkha charkha "${{COMP_WORDS[COMP_CWORD]}}"
echo "${{COMPREPLY[@]}}"
"""


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("charkha be", {"bench"}),
        ("charkha run --iter", {"--iterations"}),
        ("charkha lab d", {"down"}),
        ("charkha run --transport z", {"zmq"}),
        ("charkha bench all_r", {"all_reduce"}),
    ],
)
def test_bash_completes_commands_options_and_choices(
    words: str, found: set[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["help", "completion", "bash"]) == 0
    text = COMPLETE.format(script=capsys.readouterr().out, words=words)
    done = subprocess.run(["bash"], input=text, capture_output=True, text=True, timeout=60, check=True)
    assert set(done.stdout.split()) == found
