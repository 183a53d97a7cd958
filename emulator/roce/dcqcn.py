"""DCQCN: the reaction point at a sender, the notification point at a receiver.

The reaction point keeps a current rate R_C, a target rate R_T and an estimate alpha of congestion:
    CNP            R_T = R_C;  R_C = R_C · (1 - alpha/2);  alpha = (1 - g) · alpha + g          (equation 1)
    quiet for K    alpha = (1 - g) · alpha                                                  (equation 2)
    increase       fast recovery  R_C = (R_T + R_C) / 2                             (equation 3)
                   additive       R_T = R_T + R_AI, then as above                   (equation 4)
                   hyper          R_T = R_T + R_HAI, then as above
An increase comes whenever the timer or the byte counter expires. Both count their expiries since the last cut: fast
recovery while neither has reached F, hyper increase when both are beyond F, else additive.

Source: Zhu et al., Congestion Control for Large-Scale RDMA Deployments, SIGCOMM 2015, sections 3.1 and 3.2.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Final

from emulator.errors import PlanError

_MEGA: Final = 1_000_000
_UNITS: Final = {"_bps": "bit/s", "_ns": "ns", "_bytes": "bytes"}


@dataclass(frozen=True, slots=True)
class DcqcnParameters:
    """Effective values; every name carries its unit; one without a unit is a ratio or a count.

    Attributes:
        line_rate_bps: where a flow starts, and the most it may send at.
        alpha_gain: g.
        alpha_timer_ns: K, the time without a CNP after which alpha decays.
        initial_alpha: alpha before the first CNP.
        first_rate_bps: R_C after a flow's first CNP; None: as after any other.
        largest_cut: the most that one CNP may take off, as a share of R_C.
        decrease_interval_ns: cuts come at most so often.
        increase_timer_ns: T.
        byte_counter_bytes: B.
        recovery_threshold: F.
        additive_bps, hyper_bps: R_AI, R_HAI.
        lowest_rate_bps: R_C never goes below.
        cnp_gap_ns: N, the smallest gap between CNPs of one flow.
    """

    line_rate_bps: float = 100_000 * _MEGA
    alpha_gain: float = 1 / 256
    alpha_timer_ns: int = 55_000
    initial_alpha: float = 1.0
    first_rate_bps: float | None = None
    largest_cut: float = 1.0
    decrease_interval_ns: int = 0
    increase_timer_ns: int = 55_000
    byte_counter_bytes: int = 10_000_000
    recovery_threshold: int = 5
    additive_bps: float = 40 * _MEGA
    hyper_bps: float = 400 * _MEGA
    lowest_rate_bps: float = 1 * _MEGA
    cnp_gap_ns: int = 50_000

    def described(self) -> Mapping[str, tuple[float, str]]:
        """Name → (value, unit) of every value that is in effect."""
        units = {name: next((unit for end, unit in _UNITS.items() if name.endswith(end)), "") for name in asdict(self)}
        return {name: (value, units[name]) for name, value in asdict(self).items() if value is not None}


PRESETS: Final = {
    "paper": DcqcnParameters(),
    "connectx": DcqcnParameters(
        alpha_gain=1 - 1019 / 1024,
        alpha_timer_ns=21_000,
        first_rate_bps=10_000 * _MEGA,
        largest_cut=0.5,
        decrease_interval_ns=21_000,
        increase_timer_ns=300_000,
        byte_counter_bytes=32_767 * 64,
        recovery_threshold=1,
        additive_bps=5 * _MEGA,
        hyper_bps=50 * _MEGA,
        lowest_rate_bps=1 * _MEGA,
        cnp_gap_ns=4_000,
    ),
    "hpcc-simulator": DcqcnParameters(
        alpha_gain=1 / 16,
        alpha_timer_ns=55_000,
        decrease_interval_ns=4_000,
        increase_timer_ns=1_500_000,
        additive_bps=5 * _MEGA,
        hyper_bps=50 * _MEGA,
        lowest_rate_bps=100 * _MEGA,
    ),
}
"""Values seen in the field, in one set of units. "otg" and "paper-scaled" depend on the line rate: see `preset`."""

PRESET_NAMES: Final = (*PRESETS, "otg", "paper-scaled")
PAPER_LINE_RATE_BPS: Final = 40_000 * _MEGA
"""Of the paper's testbed (section 6)."""


def preset(name: str, *, line_rate_bps: float) -> DcqcnParameters:
    """The values of a preset on a line of that rate.

    "paper-scaled" is what the paper's values are on its own line, in slow motion or in fast: times grow as the line
    is slower, rates shrink, and between two timers there are as many bytes as there.

    Raises:
        PlanError: the preset does not exist.
    """
    if name == "otg":
        return DcqcnParameters(
            line_rate_bps=line_rate_bps,
            alpha_gain=1 - 1019 / 1024,
            alpha_timer_ns=21_000,
            first_rate_bps=line_rate_bps * 2e-5,
            largest_cut=0.1,
            decrease_interval_ns=21_000,
            increase_timer_ns=250_000,
            byte_counter_bytes=32_767 * 64,
            recovery_threshold=25,
            additive_bps=line_rate_bps * 1e-5,
            hyper_bps=line_rate_bps * 1e-5,
            lowest_rate_bps=line_rate_bps * 2e-5,
            cnp_gap_ns=55_000,
        )
    if name == "paper-scaled":
        return _scaled(PRESETS["paper"], line_rate_bps)
    if name not in PRESETS:
        raise PlanError(f"there is no DCQCN preset {name!r}; there are: {', '.join(PRESET_NAMES)}")
    return replace(PRESETS[name], line_rate_bps=line_rate_bps)


def _scaled(values: DcqcnParameters, line_rate_bps: float) -> DcqcnParameters:
    factor = line_rate_bps / PAPER_LINE_RATE_BPS
    return replace(
        values,
        line_rate_bps=line_rate_bps,
        alpha_timer_ns=max(1, round(values.alpha_timer_ns / factor)),
        increase_timer_ns=max(1, round(values.increase_timer_ns / factor)),
        additive_bps=values.additive_bps * factor,
        hyper_bps=values.hyper_bps * factor,
        lowest_rate_bps=values.lowest_rate_bps * factor,
        cnp_gap_ns=max(1, round(values.cnp_gap_ns / factor)),
    )


@dataclass(slots=True, eq=False)
class ReactionPoint:
    """Sets one flow's rate; timers are brought up to date when it is read."""

    parameters: DcqcnParameters
    alpha: float = field(init=False)
    current_bps: float = field(init=False)
    target_bps: float = field(init=False)
    _is_cut: bool = False  # until the first CNP there is nothing to recover from
    _cut_ns: int = 0
    _alpha_due_ns: int = 0
    _increase_due_ns: int = 0
    _bytes: int = 0
    _byte_expiries: int = 0
    _timer_expiries: int = 0

    def __post_init__(self) -> None:
        self.alpha = self.parameters.initial_alpha
        self.current_bps = self.target_bps = self.parameters.line_rate_bps

    def rate_bps(self, now: int) -> float:
        """R_C, bit/s."""
        if self._is_cut:
            self._catch_up(now)
        return self.current_bps

    def notified(self, now: int) -> None:
        """A CNP came: cut the rate, unless it has just been cut."""
        parameters = self.parameters
        if self._is_cut:
            self._catch_up(now)
            if now - self._cut_ns < parameters.decrease_interval_ns:
                self._alpha_due_ns = now + parameters.alpha_timer_ns
                return
        is_first, self._is_cut, self._cut_ns = not self._is_cut, True, now
        self.target_bps = self.current_bps
        first_bps = parameters.first_rate_bps
        if is_first and first_bps is not None and first_bps < self.current_bps:
            self.current_bps = first_bps
        else:
            self.current_bps *= 1 - min(self.alpha / 2, parameters.largest_cut)
        self.current_bps = max(self.current_bps, parameters.lowest_rate_bps)
        self.alpha = (1 - parameters.alpha_gain) * self.alpha + parameters.alpha_gain
        self._alpha_due_ns = now + parameters.alpha_timer_ns
        self._increase_due_ns = now + parameters.increase_timer_ns
        self._bytes = self._byte_expiries = self._timer_expiries = 0

    def sent(self, size: int, now: int) -> None:
        """Count bytes; the byte counter may raise the rate."""
        if not self._is_cut:
            return
        self._catch_up(now)
        self._bytes += size
        while self._bytes >= self.parameters.byte_counter_bytes:
            self._bytes -= self.parameters.byte_counter_bytes
            self._byte_expiries += 1
            self._increase()

    def _catch_up(self, now: int) -> None:
        parameters = self.parameters
        while self._alpha_due_ns <= now and self.alpha > 0:
            self.alpha *= 1 - parameters.alpha_gain
            self._alpha_due_ns += parameters.alpha_timer_ns
            if self.alpha < 1e-12:
                self.alpha = 0.0
        while self._increase_due_ns <= now:
            if self.current_bps >= parameters.line_rate_bps:
                self._increase_due_ns = now + parameters.increase_timer_ns
                return
            self._increase_due_ns += parameters.increase_timer_ns
            self._timer_expiries += 1
            self._increase()

    def _increase(self) -> None:
        parameters, expiries = self.parameters, (self._timer_expiries, self._byte_expiries)
        if min(expiries) > parameters.recovery_threshold:
            self.target_bps += parameters.hyper_bps
        elif max(expiries) >= parameters.recovery_threshold:
            self.target_bps += parameters.additive_bps
        self.target_bps = min(self.target_bps, parameters.line_rate_bps)
        self.current_bps = (self.target_bps + self.current_bps) / 2
        if parameters.line_rate_bps - self.current_bps < 1:  # halving gets there only in the limit
            self.current_bps = parameters.line_rate_bps


@dataclass(slots=True, eq=False)
class NotificationPoint:
    """Decides when a receiver sends a CNP: for a marked packet, at most one per `gap_ns`."""

    gap_ns: int
    _last_ns: int | None = None

    def marked(self, now: int) -> bool:
        """A packet came with the mark; whether to send a CNP for it."""
        if self._last_ns is not None and now - self._last_ns < self.gap_ns:
            return False
        self._last_ns = now
        return True
