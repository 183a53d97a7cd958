"""`charkha agent certs`: certificates for the control stream between controller and agents."""

from __future__ import annotations

import argparse
from datetime import timedelta
from pathlib import Path

from emulator import exit_codes
from emulator.cli.output import print_tables
from emulator.cli.parser import Subparsers, at_least
from emulator.control.certificates.roles import Role
from emulator.control.wire.credentials import read_token
from emulator.host.files import write_secret

_INIT = """example, on a protected machine:
  charkha agent certs init authority
"""
_ISSUE = """examples:
  charkha agent certs issue authority controller --role controller --address 192.0.2.1
  charkha agent certs issue authority server1 --role agent --days 30
"""
_REVOKE = """example:
  charkha agent certs revoke authority server1
"""
_TOKEN = """example:
  charkha agent certs token secret server1 --role agent --hours 8
"""
_MORE = """
Copy each file only to its machine: it contains a key. The folder of the authority stays
where it is. docs/physical.md shows where the files go.
"""


def add_parser(subparsers: Subparsers) -> None:
    """Add `certs` to the command line."""
    parser = subparsers.add_parser(
        "certs",
        description="Issue certificates, so that only your agents and controllers can connect to each other.",
        epilog=_INIT + _ISSUE + _MORE,
    )
    actions = parser.add_subparsers(title="actions", metavar="init|issue|revoke|token", required=True)
    init = actions.add_parser(
        "init",
        help="create an authority",
        description="Create the authority of a test bed in a new folder.",
        epilog=_INIT,
    )
    init.add_argument("folder", metavar="FOLDER", type=Path, help="new folder for its key and certificate")
    init.add_argument("--name", metavar="NAME", default="charkha", help="name in its certificate (default: charkha)")
    init.set_defaults(handler=_init)
    issue = actions.add_parser(
        "issue",
        help="issue a certificate",
        description="Issue a certificate with its key, in one file.",
        epilog=_ISSUE + _MORE,
    )
    issue.add_argument("folder", metavar="FOLDER", type=Path, help="folder of the authority")
    issue.add_argument("name", metavar="NAME", help="name of the agent as in the topology, or of the controller")
    issue.add_argument("--role", choices=[role.value for role in Role], required=True, help="role of the holder")
    issue.add_argument(
        "--address",
        metavar="HOST",
        action="append",
        default=[],
        help="address or host name that agents connect to (repeatable; a controller needs one)",
    )
    issue.add_argument(
        "--days", metavar="N", type=at_least(1, most=3650), default=90, help="validity, days (default: 90)"
    )
    issue.add_argument("--out", metavar="FILE", type=Path, help="file to write (default: NAME.pem in FOLDER)")
    issue.set_defaults(handler=_issue)
    revoke = actions.add_parser(
        "revoke",
        help="revoke an identity",
        description="Revoke every identity of a name that was issued so far. Copy the list, authority.crl,\n"
        "beside the identity of every controller.",
        epilog=_REVOKE,
    )
    revoke.add_argument("folder", metavar="FOLDER", type=Path, help="folder of the authority")
    revoke.add_argument("name", metavar="NAME", help="name in the identity")
    revoke.set_defaults(handler=_revoke)
    token = actions.add_parser(
        "token",
        help="issue a short-lived token",
        description="Issue a token for an agent or a user, from the secret of the controller or the service.",
        epilog=_TOKEN,
    )
    token.add_argument("secret", metavar="SECRET", type=Path, help="file with the secret: openssl rand -hex 24")
    token.add_argument("name", metavar="NAME", help="name of the agent as in the topology, or of the user")
    roles = [role.value for role in Role if role is not Role.CONTROLLER]
    token.add_argument("--role", choices=roles, required=True, help="role of the holder")
    token.add_argument("--hours", metavar="N", type=at_least(1, most=8784), default=8, help="validity (default: 8)")
    token.add_argument("--out", metavar="FILE", type=Path, help="file to write (default: NAME.token here)")
    token.set_defaults(handler=_token)


def _init(args: argparse.Namespace) -> int:
    from emulator.annexes.launch.authority import make_authority

    print_tables(str(make_authority(args.folder, name=args.name)))
    return exit_codes.DONE


def _issue(args: argparse.Namespace) -> int:
    from emulator.annexes.launch.authority import issue

    issued = issue(
        args.folder,
        args.name,
        role=Role(args.role),
        addresses=args.address,
        valid=timedelta(days=args.days),
        out=args.out,
    )
    print_tables(f"{issued.path}: {issued.role} {issued.name}, until {issued.expires:%Y-%m-%d %H:%M} UTC")
    return exit_codes.DONE


def _revoke(args: argparse.Namespace) -> int:
    from emulator.annexes.launch.authority import revoke

    print_tables(
        f"{revoke(args.folder, args.name)}: {args.name} is revoked, once this is beside every controller's file"
    )
    return exit_codes.DONE


def _token(args: argparse.Namespace) -> int:
    from emulator.annexes.launch.authority import issue_token

    role, valid = Role(args.role), timedelta(hours=args.hours)
    secret = read_token(args.secret) or ""
    token = issue_token(secret, args.name, role=role, valid=valid)
    path = args.out or Path(f"{args.name}.token")
    write_secret(path, f"{token}\n".encode())
    print_tables(f"{path}: {role} {args.name}, for {args.hours} h")
    return exit_codes.DONE
