"""`charkha demo`: a tour of a few minutes, and the tutorials, which are tours as well."""

from __future__ import annotations

import argparse
import shlex
import signal
import textwrap
import time
from collections.abc import Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from emulator.annexes.demo.playing import LabNamespaces
from emulator.annexes.demo.tours import DEMO, TOURS, Tour, without_lab
from emulator.cli.output import notify
from emulator.cli.parser import Subparsers
from emulator.errors import HostError
from emulator.exit_codes import DONE, EXPECTATION_FAILED, REGRESSION, UNDECIDED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from emulator.annexes.demo.playing import Played

_EPILOG = """example:
  charkha demo --out first-tour

Each command is printed before it runs, and can be typed instead. Nothing leaves this machine. Labs
are brought up in namespaces of the demo's own, which go away with it, also when it is interrupted
or killed. They need root; without it the demo plays over loopback. The results stay.
"""
_VERDICTS = {DONE: "PASS", EXPECTATION_FAILED: "FAIL", REGRESSION: "SLOWER", UNDECIDED: "UNDECIDED"}


def add_parser(subparsers: Subparsers) -> None:
    """Add `demo` to the command line."""
    text = "Play good and bad firmware on this machine, judge and compare both, in about three minutes."
    parser = subparsers.add_parser("demo", description=text, epilog=_EPILOG)
    parser.add_argument(
        "tour",
        metavar="TOUR",
        nargs="?",
        choices=list(TOURS),
        default=DEMO.name,
        help="demo, or a tutorial: validation, ci, chakra (default: demo)",
    )
    parser.add_argument("--out", metavar="DIR", type=Path, help="folder for the results (default: runs/<time>-<TOUR>)")
    parser.add_argument("--loopback", action="store_true", help="bring up no lab")
    parser.add_argument("--open", action="store_true", help="open the report in a browser")
    parser.set_defaults(handler=_run)


def _run(args: argparse.Namespace) -> None:
    from emulator.results.run_folder.places import check_folder

    folder = args.out or Path("runs") / f"{time.strftime('%Y%m%d-%H%M%S')}-{args.tour}"
    check_folder(folder, "--out")
    tour = TOURS[args.tour]
    with _ending_on_sigterm(), _place(tour, loopback=args.loopback) as place:
        if place is None:
            tour = without_lab(tour)
        folder.mkdir(parents=True, exist_ok=True)
        print(f"{tour.title}. {tour.reader}\n\n$ cd {shlex.quote(str(folder))}", flush=True)
        _play(tour, folder.resolve(), place)
    shown = folder / tour.shows
    print(f"\nThe report, for a browser: {shown}\nAll of it: {folder}")
    if args.open:
        import webbrowser

        if not webbrowser.open(shown.resolve().as_uri()):
            notify(f"no browser can be started here: open {shown}")


def _play(tour: Tour, folder: Path, place: LabNamespaces | None) -> None:
    from emulator.annexes.demo.playing import play

    began, played = time.monotonic(), []
    for one in play(tour, folder, place=place, on_step=lambda step: print(shown(step.why, step.command), flush=True)):
        if one.code:
            print(f"(exit code {one.code})", flush=True)
        played.append(one)
    print(f"\nDone in {time.monotonic() - began:.0f} s, {len(played)} commands. {' '.join(_outcomes(played))}".rstrip())


def shown(why: str, command: str) -> str:
    """A step as it is printed before it runs."""
    return f"\n{textwrap.fill(why, 110, initial_indent='# ', subsequent_indent='# ')}\n$ {command}"


def _outcomes(played: Sequence[Played]) -> Iterator[str]:
    return (f"{one.step.what.capitalize()}: {_VERDICTS[one.code]}." for one in played if one.step.what)


def _place(tour: Tour, *, loopback: bool) -> LabNamespaces | nullcontext[None]:
    """Namespaces for the lab of a tour; None if it needs none, or this host has none and it can do without.

    Raises:
        HostError: it cannot do without.
    """
    if loopback or not tour.has_lab:
        return nullcontext()
    try:
        return LabNamespaces.make()
    except HostError as error:
        if without_lab(tour).has_lab:
            raise
        notify(f"no lab on this host, so the demo plays over loopback: {error}")
        return nullcontext()


@contextmanager
def _ending_on_sigterm() -> Iterator[None]:
    """SIGTERM ends the demo as Ctrl-C does, so that the command that runs is ended too."""

    def interrupt(_: int, __: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
