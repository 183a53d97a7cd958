"""A tar of what a guest needs to run an agent with an RDMA device: Python, pyverbs, its libraries, this project.

The guest boots from a file system in memory without a package manager, so files of this machine are copied, and the
shared libraries that they need.
"""

import importlib.util
import re
import subprocess
import sys
import tarfile
from pathlib import Path

from tests.guest.image import NoGuest

PROJECT = Path(__file__).resolve().parents[2]
PYTHON = Path("/usr/bin/python3.11")
PYVERBS = Path("/usr/lib/python3/dist-packages/pyverbs")
PACKAGES = ("grpc", "numpy", "numpy.libs", "msgspec", "google", "typing_extensions")
SITE = "/usr/lib/python3/dist-packages"
_LEFT_OUT = re.compile(r"/(tests?|__pycache__|ensurepip|idlelib|tkinter|lib2to3|config-3[^/]*|include|f2py)(/|$)")


def pack(target: Path) -> None:
    """Write the tar.

    Raises:
        NoGuest: this machine lacks something that is to be copied.
    """
    if sys.version_info[:2] != (3, 11) or not PYTHON.exists():
        raise NoGuest("needs Debian's Python 3.11, whose files are copied, and the tests running on 3.11")
    if not PYVERBS.exists():
        raise NoGuest("needs pyverbs: apt-get install python3-pyverbs")
    libraries: set[str] = set()
    with tarfile.open(target, "w") as tar:
        for path in (PYTHON, Path("/usr/lib/python3.11"), PYVERBS):
            _add(tar, path, str(path), libraries)
        for name in PACKAGES:
            path = _location(name)
            _add(tar, path, f"{SITE}/{path.name}", libraries)
        for name in ("agents", "emulator"):
            _add(tar, PROJECT / name, f"/opt/charkha/{name}", libraries)
        tar.add(Path(__file__).with_name("rank_server.py"), "/opt/charkha/rank_server.py")
        for library in sorted(libraries):
            if not library.startswith(str(_location("grpc").parent)):
                tar.add(Path(library).resolve(), library)


def _location(name: str) -> Path:
    if name == "numpy.libs":
        return _location("numpy").with_name(name)
    spec = importlib.util.find_spec(name)
    if spec is None:
        raise NoGuest(f"needs {name}")
    if spec.submodule_search_locations:
        return Path(next(iter(spec.submodule_search_locations)))
    assert spec.origin is not None
    return Path(spec.origin)


def _add(tar: tarfile.TarFile, path: Path, name: str, libraries: set[str]) -> None:
    if path.is_dir() and not path.is_symlink():
        for child in sorted(path.iterdir()):
            if not _LEFT_OUT.search(str(child)):
                _add(tar, child, f"{name}/{child.name}", libraries)
        return
    if ".so" in path.name or path == PYTHON:
        shown = subprocess.run(["ldd", str(path)], check=False, capture_output=True, text=True).stdout
        libraries.update(re.findall(r"(/[^ ]+\.so[^ ]*)", shown))
    if path.exists():
        tar.add(path.resolve(), name)
