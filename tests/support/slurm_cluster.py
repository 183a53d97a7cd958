"""A real Slurm with two nodes on this machine, in a network namespace: slurmctld and two slurmd."""

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.support.command import wait_for
from tests.support.namespaces import Namespace

_CONFIGURATION = """\
ClusterName=charkha
SlurmctldHost={host}(127.0.0.1)
AuthType=auth/none
CredType=cred/none
SlurmUser=root
SlurmdUser=root
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SchedulerType=sched/backfill
SelectType=select/linear
MpiDefault=none
ReturnToService=2
KillWait=30
MailProg=/bin/true
SlurmctldPort=16817
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
NodeName=n0 NodeHostname={host} NodeAddr=127.0.0.1 Port=16820 CPUs=2
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port=16821 CPUs=2
PartitionName=all Nodes=n0,n1 Default=YES State=UP MaxTime=INFINITE
"""


SLURM = ("slurmctld", "slurmd", "sbatch", "srun", "scontrol")
"""Commands that this needs."""


@contextmanager
def slurm_cluster(alone: Namespace, folder: Path) -> Iterator[Mapping[str, str]]:
    """Start it; yields the environment that its commands need. Its processes end with the context."""
    for name in ("state", "spool.n0", "spool.n1"):
        (folder / name).mkdir()
    file = folder / "slurm.conf"
    file.write_text(_CONFIGURATION.format(host=os.uname().nodename, folder=folder))
    (folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
    # Slurm asks the resolver for an address to listen at, which gives none where loopback is the only interface.
    alone.run("ip", "link", "add", "up0", "type", "veth", "peer", "name", "up1")
    alone.run("ip", "address", "add", "192.0.2.1/24", "dev", "up0")
    alone.run("ip", "link", "set", "up0", "up")
    environment = {"SLURM_CONF": str(file)}
    with ExitStack() as stack:
        for daemon in (("slurmctld", "-D"), ("slurmd", "-D", "-N", "n0"), ("slurmd", "-D", "-N", "n1")):
            words = [*alone.prefix, shutil.which(daemon[0]) or daemon[0], *daemon[1:]]
            log = stack.enter_context((folder / f"{daemon[-1]}.out").open("wb"))
            process = subprocess.Popen(words, env={**os.environ, **environment}, stdout=log, stderr=log)
            stack.callback(process.wait)
            stack.callback(process.terminate)
        wait_for(lambda: True if _idle(alone, environment) == 2 else None)
        yield environment


def slurm(alone: Namespace, environment: Mapping[str, str], *words: str) -> str:
    """Run a command of Slurm; what it printed."""
    done = subprocess.run(
        [*alone.prefix, *words], env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    return done.stdout


def _idle(alone: Namespace, environment: Mapping[str, str]) -> int:
    return slurm(alone, environment, "sinfo", "--noheader", "-N", "-o", "%T").split().count("idle")
