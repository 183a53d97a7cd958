"""`--mqtt` and `--metrics`: who is told of a run."""

from __future__ import annotations

import argparse

PASSWORD_VARIABLE = "CHARKHA_MQTT_PASSWORD"


def add_telemetry_options(parser: argparse.ArgumentParser) -> None:
    """Options of what is told while a run goes on."""
    group = parser.add_argument_group("telemetry")
    group.add_argument(
        "--mqtt",
        metavar="URL",
        help=f"publish what the run does: mqtt://[USER@]HOST[:PORT][/PREFIX]; its password in {PASSWORD_VARIABLE}",
    )
    group.add_argument("--metrics", metavar="[HOST:]PORT", help="serve Prometheus metrics (default host: 127.0.0.1)")
