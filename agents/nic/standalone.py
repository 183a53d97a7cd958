"""A NIC on its own, without a transport: for peers whose queue pairs are agreed in another way."""

from __future__ import annotations

import asyncio
from types import TracebackType

from agents.nic.context import make_context
from agents.nic.nic import SoftwareNic
from agents.nic.passes import Passes
from agents.nic.sockets import Listener, Senders
from emulator.host.timer import TimerfdClock
from emulator.roce.options import RoceOptions


class StandaloneNic:
    """The NIC of an address of this host, on the running event loop; a context manager that closes it.

    Args:
        host: numeric IP address, port 4791 of which is free.
        options: see RoceOptions.
        device: interface to bind its sockets to; None: any.

    Raises:
        HostError: the address is not on this host or its port is in use, or a limit is reached.
    """

    def __init__(self, host: str, options: RoceOptions, *, device: str | None = None) -> None:
        self._clock = TimerfdClock(asyncio.get_running_loop())
        self._context = make_context(
            options=options,
            clock=self._clock,
            senders=Senders(traffic_class=options.traffic_class, devices=None if device is None else {host: device}),
            payload_seed=None,
        )
        self.passes = Passes(self._clock, timeout_ns=4096 << options.qp_timeout)
        try:
            listener = Listener(host, has_ecn=options.ecn != "off", device=device)
        except BaseException:
            self._close_all()
            raise
        self.nic = SoftwareNic(listener, self._context, self.passes)

    def __enter__(self) -> StandaloneNic:
        self.nic.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop at once."""
        self.nic.close()
        self._close_all()

    def _close_all(self) -> None:
        self.passes.close()
        self._clock.close()
        self._context.senders.close()
