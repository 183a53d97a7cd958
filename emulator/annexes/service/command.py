"""`charkha serve`: the service."""

from __future__ import annotations

import argparse
from pathlib import Path

from emulator.cli.output import notify, print_tables
from emulator.cli.parser import Subparsers

_EPILOG = """example:
  charkha serve lab-service

Serves a web page and an HTTP API: users queue run specs for each device under test, watch their
runs, and look at reports, comparisons and trends. FOLDER holds everything: users and queues, run
folders, and serve.yaml, which names the folders of your traces, topologies, profiles and suites.
The first start prints the token of the user admin. docs/serve.md has the details.

  charkha serve lab-service --user ann --role operator     adds a user or renews a token,
                                                           also while the service runs
"""
_ROLES = ("viewer", "operator", "admin")


def add_parser(subparsers: Subparsers) -> None:
    """Add `serve` to the command line."""
    parser = subparsers.add_parser(
        "serve",
        description="Serve a queue of runs for each device under test, with users, history and a web page.",
        epilog=_EPILOG,
    )
    parser.add_argument("folder", metavar="FOLDER", type=Path, help="folder of the service, created if missing")
    parser.add_argument("--listen", metavar="[ADDRESS:]PORT", help="where to listen (default: 127.0.0.1:8760)")
    users = parser.add_argument_group("users")
    users.add_argument("--user", metavar="NAME", help="add a user or renew a token, print the token and exit")
    users.add_argument("--role", choices=_ROLES, default="operator", help="role of that user (default: operator)")
    parser.set_defaults(handler=_run)


def _run(args: argparse.Namespace) -> None:
    # These imports take most of a second, which --help does not need.
    import asyncio
    import contextlib

    from emulator.annexes.service.configuration import ServiceFolder, read_configuration
    from emulator.annexes.service.model import User
    from emulator.annexes.service.serving import FIRST_USER, opened, prepare, serve, store_of
    from emulator.errors import InputError
    from emulator.host.resources import share_heap
    from emulator.schema import SchemaProblem, decode

    place = ServiceFolder(args.folder)
    configuration = read_configuration(place, listen=args.listen)
    if args.user is not None:
        try:
            user = decode({"name": args.user, "role": args.role}, User)
        except SchemaProblem as problem:
            raise InputError(f"--user: {problem}") from problem
        with contextlib.closing(store_of(place)) as store:
            print_tables(store.put_user(user.name, user.role))
        return
    share_heap()
    with opened(place) as store:
        token = prepare(store)
        if token is not None:
            notify(f"the token of {FIRST_USER}, shown only now, is on stdout")
            print(token, flush=True)
        asyncio.run(serve(store, place, configuration, notify=notify))
