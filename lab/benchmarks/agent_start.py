"""How long `charkha agent start` takes from its start to its Hello, and what it occupies while it waits for a run.

    python -m lab.benchmarks.agent_start [--command PATH] [--count N]

Agents start one after another; `--command` is the `charkha` of another environment. The first one is not counted: it
brings modules into the page cache, and compiles those that are not.
"""

from __future__ import annotations

import argparse
import queue
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc

from emulator.control.conversation import METHOD

_SETTLED_S = 1.0


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--command", metavar="PATH", default="", help="charkha of another environment")
    parser.add_argument("--count", type=int, default=11)
    args = parser.parse_args()
    command = [args.command] if args.command else [sys.executable, "-P", "-m", "emulator"]
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor() as threads:
        target, heard = f"unix:{folder}/control", queue.SimpleQueue[int]()
        server = _listening(target, heard, threads)
        found = [_started([*command, "agent", "--controller", target], heard) for _ in range(1 + args.count)][1:]
        server.stop(0).wait()
    times, sizes = zip(*found, strict=True)
    print(f"start to Hello: {statistics.median(times):.0f} ms median of {args.count}")
    print(f"  fastest {min(times):.0f} ms, slowest {max(times):.0f} ms")
    print(f"resident while idle: {statistics.median(sizes) / 1e6:.1f} MB")


def _listening(target: str, heard: queue.SimpleQueue[int], threads: ThreadPoolExecutor) -> grpc.Server:
    def session(messages: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        for _ in messages:  # Hello
            heard.put(time.monotonic_ns())
        return iter(())

    service, _, method = METHOD.removeprefix("/").partition("/")
    handler = grpc.stream_stream_rpc_method_handler(session)
    server = grpc.server(threads)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {method: handler}),))
    server.add_insecure_port(target)
    server.start()
    return server


def _started(command: Sequence[str], heard: queue.SimpleQueue[int]) -> tuple[float, int]:
    """Milliseconds until it said Hello, and bytes that are resident a second later."""
    start_ns = time.monotonic_ns()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as agent:
        try:
            took_ms = (heard.get(timeout=30) - start_ns) / 1e6
            time.sleep(_SETTLED_S)
            status = Path(f"/proc/{agent.pid}/status").read_text()
        finally:
            agent.terminate()
    return took_ms, int(status.partition("VmRSS:")[2].split()[0]) * 1024


if __name__ == "__main__":
    main()
