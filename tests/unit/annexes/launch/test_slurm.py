"""What Slurm is given: a batch script without secrets, and a script that becomes the agent of its task."""

import shlex

from emulator.annexes.launch.engine import Placement
from emulator.annexes.launch.slurm import SlurmBatch, agents_script

AGENTS = Placement(["a", "b c"], ["eth1"])


def test_a_batch_script_asks_for_a_node_per_agent_and_keeps_the_words_of_the_command() -> None:
    script = SlurmBatch(AGENTS, ["partition=lab"]).script(["run", "my trace", "--topology", "t.yaml"])
    lines = script.splitlines()
    assert lines[0] == "#!/bin/sh"
    assert {"#SBATCH --nodes=2", "#SBATCH --ntasks-per-node=1", "#SBATCH --partition=lab"} <= set(lines)
    words = shlex.split(lines[-1])
    assert words[words.index("--") + 1 :] == ["run", "my trace", "--topology", "t.yaml"]
    assert words[words.index("slurm") :][:4] == ["slurm", "--in-job", "--interface", "eth1"]


def test_a_token_instead_of_identities_is_known_inside_the_job() -> None:
    script = SlurmBatch(Placement(["a"], has_identities=False)).script(["run", "x"])
    assert "--in-job --insecure" in script


def test_every_task_becomes_its_own_agent() -> None:
    script = agents_script(AGENTS, "192.0.2.1:4790", "/shared/f")
    first, second = script.splitlines()[1:3]
    assert first.startswith("  0) exec ")
    words = shlex.split(second.removeprefix("  1) exec ").removesuffix(" ;;"))
    assert words[words.index("--name") + 1] == "b c"
    assert words[words.index("--identity") + 1] == "/shared/f/b c.pem"
