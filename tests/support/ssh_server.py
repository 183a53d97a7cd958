"""A real sshd (OpenSSH) with keys of its own, in a network namespace."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.command import wait_for
from tests.support.namespaces import Namespace

SSHD = "/usr/sbin/sshd"
PORT = 2222
_SERVER = """\
Port {port}
ListenAddress 127.0.0.1
HostKey {folder}/host
PidFile none
AuthorizedKeysFile {folder}/user.pub
StrictModes no
UsePAM no
PasswordAuthentication no
"""


@contextmanager
def ssh_server(alone: Namespace, folder: Path) -> Iterator[Path]:
    """Start it; yields a configuration for clients that knows its host key. `folder` is the test's own."""
    Path("/run/sshd").mkdir(exist_ok=True)  # of Debian's privilege separation; made by its service otherwise
    for name in ("host", "user"):
        words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)]
        subprocess.run(words, check=True)
    (folder / "sshd_config").write_text(_SERVER.format(port=PORT, folder=folder))
    key = " ".join((folder / "host.pub").read_text().split()[:2])
    (folder / "known_hosts").write_text(f"[127.0.0.1]:{PORT} {key}\n")
    client = folder / "ssh_config"
    client.write_text(f"IdentityFile {folder}/user\nUserKnownHostsFile {folder}/known_hosts\nPort {PORT}\n")
    words = [*alone.prefix, shutil.which(SSHD) or SSHD, "-D", "-e", "-f", str(folder / "sshd_config")]
    with (folder / "log").open("wb") as log, subprocess.Popen(words, stderr=log, env=dict(os.environ)) as process:
        try:
            wait_for(lambda: True if "listening" in (folder / "log").read_text() else None)
            yield client
        finally:
            process.terminate()
