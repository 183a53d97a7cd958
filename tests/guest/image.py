"""Build what a guest boots from: Debian's own kernel with rdma_rxe, and a file system in memory with RDMA programs.

`python -m tests.guest.image`, as root, installs the packages that this needs and builds it, unless it is there. Tests
skip where it is not.
"""

import argparse
import fcntl
import hashlib
import lzma
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

PACKAGES = (
    *("qemu-system-x86", "busybox-static", "cpio", "kmod", "iproute2", "nftables", "ethtool", "tcpdump"),
    *("socat", "rdma-core", "ibverbs-utils", "ibverbs-providers", "perftest", "rdmacm-utils"),
    *("gcc", "libc6-dev", "libibverbs-dev", "zlib1g-dev", "python3-pyverbs"),
)
KERNEL, FILES = "vmlinux", "initrd.cpio"
VERBS_END = "verbs_end"
"""Program in the guest that does what verbs_end.c says."""
_HERE = Path(__file__).parent
_MODULES = (
    *("virtio_pci", "virtio_net", "af_packet", "crc32_generic", "crc32c_generic"),
    *("ib_uverbs", "rdma_cm", "rdma_ucm", "rdma_rxe"),
)
_PROGRAMS = (
    *("dash", "ip", "rdma", "socat", "tcpdump", "ethtool"),
    *("ib_send_bw", "ib_send_lat", "ib_write_bw", "ib_write_lat", "ib_read_bw", "ib_read_lat", "ib_atomic_bw"),
    *("rping", "rdma_client", "rdma_server", "ibv_devinfo"),
)
_LOADED_LATER = ("libgcc_s.so.1", "libnss_files.so.2")
"""Libraries that programs load while they run, which ldd does not list."""
_XZ = b"\xfd7zXZ\x00"
_LIBRARY = re.compile(r"(/\S+\.so\S*)")


class NoGuest(Exception):
    """No such machine can run here; the message says why."""


def image_folder() -> Path:
    """Where the image of this user is kept; another one if what it is made by has changed."""
    digest = hashlib.sha256()
    for file in (Path(__file__), _HERE / "verbs_end.c", *sorted((_HERE / "boot").iterdir())):
        digest.update(file.read_bytes())
    return Path(tempfile.gettempdir()) / f"charkha-guest-{os.getuid()}-{digest.hexdigest()[:12]}"


def is_built(folder: Path) -> bool:
    """Whether an image is there."""
    return all((folder / name).exists() for name in (KERNEL, FILES))


def build(folder: Path) -> None:
    """Build the image, unless it is there; the first one to come builds it, others wait.

    Raises:
        NoGuest: it cannot be built.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if is_built(folder):
            return
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            try:
                _build(folder, Path(scratch))
            except (OSError, subprocess.CalledProcessError, lzma.LZMAError) as error:
                said = getattr(error, "stderr", None) or b""
                raise NoGuest(f"cannot be built: {error} {said.decode(errors='replace')[-200:]}") from error


def missing_packages() -> Sequence[str]:
    """Those of PACKAGES that are not installed."""
    if shutil.which("dpkg-query") is None:
        return PACKAGES
    shown = _output("dpkg-query", "-W", "-f", "${Package} ${db:Status-Status}\n", *PACKAGES, check=False)
    installed = {line.split()[0] for line in shown.splitlines() if line.endswith(" installed")}
    return [one for one in PACKAGES if one not in installed]


def _build(folder: Path, scratch: Path) -> None:
    tree, version = _unpacked_kernel(scratch)
    root = scratch / "root"
    for name in ("bin", "sbin", "usr/bin", "usr/sbin", "lib64", "etc", "proc", "sys", "dev", "tmp", "root", "modules"):
        (root / name).mkdir(parents=True)
    _add_modules(root, tree, version)
    _add_programs(root, scratch)
    for name, target in (("init", "init"), ("serve", "bin/serve")):
        shutil.copy(_HERE / "boot" / name, root / target)
        (root / target).chmod(0o755)
    (root / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\ntcpdump:x:100:100::/:/bin/false\n")
    (root / "etc/group").write_text("root:x:0:\n")
    (root / "etc/hosts").write_text("127.0.0.1 localhost\n")
    names = "\n".join(["."] + [str(path.relative_to(root)) for path in sorted(root.rglob("*"))])
    with (scratch / FILES).open("wb") as archive:
        subprocess.run(
            ["cpio", "-o", "-H", "newc", "--quiet"], input=names.encode(), stdout=archive, cwd=root, check=True
        )
    (scratch / FILES).rename(folder / FILES)
    _write_kernel(tree / "boot" / f"vmlinuz-{version}", scratch / KERNEL)
    (scratch / KERNEL).rename(folder / KERNEL)


def _unpacked_kernel(scratch: Path) -> tuple[Path, str]:
    """Debian's newest kernel: folder, version."""
    depends = _output("apt-cache", "depends", "linux-image-amd64")
    found = re.search(r"Depends: (linux-image-(\d\S+))", depends)
    if found is None:
        raise NoGuest("finds no kernel in apt: run apt-get update")
    subprocess.run(["apt-get", "download", "-qq", found[1]], cwd=scratch, check=True, capture_output=True)
    tree = scratch / "kernel"
    subprocess.run(["dpkg-deb", "-x", next(scratch.glob("*.deb")), tree], check=True, capture_output=True)
    subprocess.run(["depmod", "-b", tree, found[2]], check=True, capture_output=True)
    return tree, found[2]


def _write_kernel(compressed: Path, target: Path) -> None:
    """The kernel without its compression: unpacking it takes an emulated processor seconds."""
    image = compressed.read_bytes()
    start = image.find(_XZ)
    if start < 0:
        raise NoGuest(f"finds no xz stream in {compressed.name}")
    target.write_bytes(lzma.LZMADecompressor(lzma.FORMAT_XZ).decompress(image[start:]))


def _add_modules(root: Path, tree: Path, version: str) -> None:
    """The modules that the guest needs, and the order in which to load them."""
    order: dict[str, None] = {}
    for module in _MODULES:
        shown = _output("modprobe", "-d", str(tree), "-S", version, "--show-depends", module, check=False)
        order |= dict.fromkeys(line.split()[1] for line in shown.splitlines() if line.startswith("insmod"))
    for file in order:
        shutil.copy(file, root / "modules")
    (root / "modules" / "order").write_text("".join(f"{Path(file).name}\n" for file in order))


def _add_programs(root: Path, scratch: Path) -> None:
    """Programs with their libraries; busybox has the rest, but its own `ip` is not to be used: sh is dash."""
    shutil.copy(_found("busybox"), root / "bin/busybox")
    for applet in _output(str(root / "bin/busybox"), "--list").split():
        (root / "bin" / applet).unlink(missing_ok=True) if applet == "sh" else None
        if applet not in ("busybox", "sh"):
            (root / "bin" / applet).symlink_to("busybox")
    (root / "bin/sh").symlink_to("/usr/bin/dash")
    program = scratch / VERBS_END
    subprocess.run(
        ["gcc", "-O2", "-Wall", "-Wextra", "-Werror", "-o", program, _HERE / "verbs_end.c", "-libverbs", "-lz"],
        check=True,
        capture_output=True,
    )
    programs = [*map(_found, _PROGRAMS), program]
    for one in programs:
        shutil.copy(one, root / "usr/bin" / one.name)
    provider = next(Path("/usr/lib").glob("*/libibverbs/librxe-*.so"))
    _add(root, provider)
    _add(root, Path("/etc/libibverbs.d/rxe.driver"))
    libraries = {library for one in (*programs, provider) for library in _libraries(one)}
    for directory in {library.parent for library in libraries}:
        libraries |= {directory / name for name in _LOADED_LATER if (directory / name).exists()}
    for library in sorted(libraries):
        _add(root, library)


def _add(root: Path, file: Path) -> None:
    target = root / file.relative_to("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(file, target)


def _libraries(program: Path) -> Iterable[Path]:
    return map(Path, _LIBRARY.findall(_output("ldd", str(program))))


def _found(program: str) -> Path:
    path = shutil.which(program, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if path is None:
        raise NoGuest(f"finds no {program}")
    return Path(path)


def _output(*command: str, check: bool = True) -> str:
    return subprocess.run(command, check=check, capture_output=True, text=True).stdout


def _install(packages: Sequence[str]) -> None:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for words in (["update"], ["install", "-y", "--no-install-recommends", *packages]) if packages else ():
        try:
            subprocess.run(["apt-get", "-qq", *words], env=environment, check=True, stdout=sys.stderr)
        except (OSError, subprocess.CalledProcessError) as error:
            raise NoGuest(f"needs {' '.join(packages)}, which cannot be installed: {error}") from error


def main(arguments: Sequence[str] | None = None) -> int:
    """Install what is missing and build; returns the exit code."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args(
        arguments
    )
    try:
        _install(missing_packages())
        build(image_folder())
    except NoGuest as error:
        print(f"the guest {error}", file=sys.stderr)
        return 3
    print(f"the guest is in {image_folder()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
