"""Give a guest a command, and print what it prints: run in the namespace of its bridge.

`python ask.py ADDRESS run COMMAND` or `python ask.py ADDRESS put NAME <FILE`; the exit code is the command's, or 255 if
the guest has gone. boot/serve is the other side.
"""

import re
import shutil
import socket
import sys
from typing import IO

PORT = 2323
GONE = 255
_END = re.compile(rb"exit code (\d+)\n?")


def ask(address: str, request: str, argument: str, payload: IO[bytes] | None) -> int:
    """Send a request; its output goes to stdout line by line.

    Args:
        request: `run` or `put`.
        argument: the command, or the name of the file.
        payload: what the file is to hold.

    Returns:
        The exit code.
    """
    with socket.create_connection((address, PORT)) as connection, connection.makefile("rwb") as stream:
        stream.write(b"run\n" + argument.encode() + b"\n" if request == "run" else f"put {argument}\n".encode())
        if payload is not None:
            shutil.copyfileobj(payload, stream)
        stream.flush()
        connection.shutdown(socket.SHUT_WR)
        code = GONE
        for line in stream:
            end = _END.fullmatch(line)
            if end is None:
                sys.stdout.buffer.write(line)
                sys.stdout.buffer.flush()
            else:
                code = int(end[1])
        return code


if __name__ == "__main__":
    _, guest, verb, about = sys.argv
    sys.exit(ask(guest, verb, about, sys.stdin.buffer if verb == "put" else None))
