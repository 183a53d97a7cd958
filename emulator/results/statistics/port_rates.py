"""How the flows of a port shared its rate over time. How that is found: emulator/annexes/timeline."""

from __future__ import annotations

from dataclasses import dataclass

NO_TIMELINE = "the run has no timeline (--timeline)"


@dataclass(frozen=True, slots=True)
class PortRates:
    """A port that received payload of a job, of the whole run.

    Attributes:
        port: `host:interface`.
        flows: whose payload it received.
        mean_bps, largest_bps: of the bins from the first with payload to the last, bit/s.
        rate_cv: standard deviation of the rate over these bins / mean; pauses count.
        fairness: Jain's index of the rates of the flows in a window, median over the windows in which all of them had
            begun and none had ended; 1 is fair, 1 / flows is not. None: see `why`.
        convergence_ns: from the beginning of the last flow until every flow stays within 10 % of its fair share, which
            is the rate of the port / flows; None: see `why`.
        unfair_ns: how long they moved together without that; None: they did it, or hardly moved together.
        window_ns: of these two: rates of shorter spans are not looked at; a time is off by at most so much.
        why: why the two are not known; "": they are.
    """

    port: str
    flows: int
    mean_bps: float
    largest_bps: float
    rate_cv: float
    fairness: float | None
    convergence_ns: int | None
    window_ns: int
    why: str = ""
    unfair_ns: int | None = None
