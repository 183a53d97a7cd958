"""`charkha help completion`: scripts for shells."""

import pytest

from emulator.cli.commands.help import SHELLS
from emulator.cli.main import main
from emulator.cli.words import SUMMARIES


@pytest.mark.parametrize("shell", SHELLS)
def test_every_command_and_its_options_are_completed(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["help", "completion", shell]) == 0
    script = capsys.readouterr().out
    for word in (word for path in SUMMARIES for word in path.split()):
        assert word in script
    for option in ("iterations", "if-exists", "step-bytes", "gate"):
        assert option in script
    assert "all_reduce" in script
