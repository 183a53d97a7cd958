"""The life of an agent: connect to the controller, play its parts of all jobs and the flows beside them, disconnect.

One asyncio task reads the control stream; sockets and the timer call the players on the same thread. Every failure
ends in `_fail`, which reports it to the controller and stops this agent.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import platform
import socket
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

from agents.control_link import ControlLink
from agents.flows import Flows
from agents.host.leased_addresses import leased
from agents.host.limits import Limits
from agents.host.ports import Ports
from agents.nic.port import Bucket
from agents.part import Part
from agents.transports.catalogue import make_transport
from emulator.control import conversation as control
from emulator.control.authentication import new_nonce
from emulator.control.wire.credentials import key_and_claims
from emulator.control.wire.tls import TlsFiles
from emulator.errors import EmulatorError, RemoteProtocolError, RunAborted
from emulator.host.clock import TimerfdClock, clock_id
from emulator.host.resources import exhausted
from emulator.host.stderr_log import is_of_grpc_poller
from emulator.planner.algorithms import load_algorithm
from emulator.units import NS_PER_S
from emulator.version import BUILD, VERSION

if TYPE_CHECKING:
    from agents.reporter import AgentMetrics


PROGRESS_S = (0.25, 1.0)
"""How often to report progress: shortest and longest interval; at most every fourth time that completions."""
_PROGRESS_SHARE = 1 / 20  # of a core: an agent with thousands of ranks counts for longer, and reports less often
FIRST_WORD_S = 10.0
"""How long the command that started this agent may take to answer."""
ABORT_S = 0.5
REFUSAL_S = 5.0
"""How long a busy controller may take to read why this agent cannot continue; all traffic has stopped by then."""


class Agent:
    """One agent process; `run` returns when the run is over.

    Args:
        target: the controller, `unix:PATH` or `HOST:PORT`.
        token: secret that the controller has as well, or a token issued with it; it is proved and never sent.
        name: of this agent, in the topology and in messages.
        ports: interfaces under test; None: bind to addresses that the system already has.
        limits: what this machine's owner allows, or the topology if the controller belongs to the same user.
        tls: certificates for the control stream; None: it is not encrypted.
        stays: wait for the controller, and for a run that has a place for this agent.
        report: called with a line of text when something begins or ends.
        metrics: updated with the progress of the run; None: nobody scrapes them.
    """

    def __init__(
        self,
        target: str,
        *,
        token: str,
        name: str,
        ports: Ports | None = None,
        limits: Limits,
        tls: TlsFiles | None = None,
        stays: bool = False,
        report: Callable[[str], None] = lambda line: None,
        metrics: AgentMetrics | None = None,
    ) -> None:
        self._metrics, self._limits = metrics, limits
        self._token, self._name, self._ports, self._stays, self._report = token, name, ports, stays, report
        self._link = ControlLink(target, tls=tls, patience_s=None if stays else FIRST_WORD_S, report=report)
        self._parts: dict[int, Part] = {}  # by number of the job
        self._hosts: dict[int | None, list[str]] = {}  # of the ranks of each job
        self._buckets: dict[str, Bucket] = {}  # by interface
        self._failed_job: int | None = None
        self._unreachable: Sequence[int] = ()  # two of its ranks that cannot reach each other
        self._receiving: asyncio.Future[Any] | None = None
        self._is_leaving = False  # the jobs are over, and flows may still have to end

    async def run(self) -> None:
        """Play one run.

        Raises:
            RunAborted: the controller stopped the run, or the connection to it is lost.
            EmulatorError: this agent cannot continue; the controller has received the reason.
        """
        self._failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().set_exception_handler(self._on_loop_error)
        async with self._link:
            try:
                await self._take_part()
            except RunAborted:
                raise
            except EmulatorError as error:
                await self._send_abort(str(error))
                raise
            except Exception as error:  # the root: what the controller asked for broke something nobody thought of
                problem = exhausted(error) or EmulatorError(f"internal error in agent {self._name}: {error!r}")
                await self._send_abort(str(problem))
                raise problem from error

    async def _take_part(self) -> None:
        key, claims = key_and_claims(self._token)
        await self._link.join(_hello(claims, self._name, stays=self._stays, ports=self._ports), key)
        await self._expect(control.Welcome)
        self._report(f"in run {self._link.run_id}")
        setup: control.Setup = await self._expect(control.Setup)
        self._report_interval_ns, self._routes = setup.report_interval_ns, (*setup.networks, *setup.alternate_networks)
        self._limits.check(setup, self._ports)
        for job in setup.jobs.values():
            for name, text in job.settings.algorithm_files.items():
                load_algorithm(text, name)
        with TimerfdClock() as self._clock:
            async with leased(self._ports, setup) as devices, contextlib.AsyncExitStack() as stack:
                for number, job in sorted(setup.jobs.items()):
                    self._parts[number] = await stack.enter_async_context(self._part(number, job, devices))
                self._flows = Flows(setup.flows, devices, self._fail, limits=self._limits)
                try:
                    await self._meet_peers()
                    for part in self._parts.values():
                        await part.bind(devices, self._limit_of)
                    await self._play_and_count()
                finally:
                    self._flows.close()

    @contextlib.asynccontextmanager
    async def _part(self, number: int, job: control.JobSetup, devices: Mapping[str, str]) -> AsyncIterator[Part]:
        async with make_transport(
            job.transport,
            message_bytes=job.message_bytes,
            run=job.run_id,
            seed=job.seed,
            options=job.options,
            domains=job.domains,
            clock=self._clock,
            devices=devices,
        ) as transport:
            fail = partial(self._fail, job=number)
            yield Part(
                number,
                job,
                transport,
                clock=self._clock,
                outlet=self._link,
                report_interval_ns=self._report_interval_ns,
                fail=fail,
                tidy=self._tidy,
            )

    def _limit_of(self, device: str) -> Bucket | None:
        """What the machine's owner limits an interface to: one for all jobs."""
        if self._limits.rate_bps is not None and device not in self._buckets:
            self._buckets[device] = Bucket(self._clock, rate_bps=self._limits.rate_bps)
        return self._buckets.get(device)

    async def _play_and_count(self) -> None:
        try:
            async with _background(self._report_progress()):
                await self._play()
                await self._finish_flows()
        except RunAborted:
            self._stop_and_count()
            self._link.send(control.Left())
            with contextlib.suppress(asyncio.TimeoutError):
                async with asyncio.timeout(ABORT_S):
                    await self._drained()
            raise
        except EmulatorError:
            self._stop_and_count()
            raise
        self._count()
        self._link.send(control.Left())
        await self._drained()

    async def _meet_peers(self) -> None:
        """Before any traffic: the peers of the flows that this agent plays."""
        if self._flows:
            self._link.send(control.Progress(0, 0, False, self._flows.waiting_on))
            await self._while_connected(self._flows.prepare())

    async def _finish_flows(self) -> None:
        if self._flows:
            self._is_leaving = True
            await self._while_connected(self._flows.finish())

    async def _while_connected(self, work: Coroutine[Any, Any, None]) -> None:
        """Some work during which the controller has nothing to say, unless it ends the run."""
        working = asyncio.ensure_future(work)
        self._receiving = asyncio.ensure_future(self._link.receive())
        try:
            await asyncio.wait([working, self._receiving, self._failure], return_when=asyncio.FIRST_COMPLETED)
            if self._failure.done():
                self._failure.result()
            if self._receiving.done():
                value = self._receiving.result().value
                raise RemoteProtocolError(f"the controller sent {type(value).__name__} out of turn")
            working.result()
        finally:
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)

    async def _drained(self) -> None:
        """Wait until the controller has read everything, whatever it still has to say."""
        if self._receiving is not None and not self._receiving.done():
            await self._link.written()
            await asyncio.wait([self._receiving])
            await asyncio.gather(self._receiving, return_exceptions=True)
        await self._link.drained()

    async def _expect(self, kind: type[Any]) -> Any:
        value = (await self._link.receive()).value
        while isinstance(value, control.Wait):
            self._report(f"waiting for the next run: {value.reason}")
            value = (await self._link.receive()).value
        if not isinstance(value, kind):
            raise RemoteProtocolError(f"the controller sent {type(value).__name__} instead of {kind.__name__}")
        return value

    async def _play(self) -> None:
        """Carry out the controller's messages until it sends Leave."""
        while True:
            self._receiving = self._receiving or asyncio.ensure_future(self._link.receive())
            await asyncio.wait([self._receiving, self._failure], return_when=asyncio.FIRST_COMPLETED)
            if self._failure.done():
                self._failure.result()
            value, job = await self._receiving
            self._receiving = None
            if isinstance(value, control.Leave):
                return
            if isinstance(value, control.Directory):
                self._check_places(value.places, job)
            if isinstance(value, control.Begin):
                self._flows.start(value.at_ns)
            elif job in self._parts:
                self._carry_out(self._parts[job], value)
            else:
                raise RemoteProtocolError(f"the controller sent {type(value).__name__} about a job of other agents")

    def _check_places(self, places: control.Places, job: int | None) -> None:
        """What leaves this agent goes to these; routes of the run are to lead to ranks of its jobs."""
        self._limits.check_places(places)
        self._hosts[job] = [one for host, _, second in places.values() for one in (host, second) if one is not None]
        if len(self._hosts) == len(self._parts):
            self._limits.check_routes(self._routes, list(chain.from_iterable(self._hosts.values())))

    def _carry_out(self, part: Part, value: Any) -> None:
        try:
            part.carry_out(value)
        except EmulatorError:
            raise
        except Exception as error:  # the edge: a program may be nonsense in more ways than can be listed
            reason = f"the controller sent {type(value).__name__} that is not valid here ({error!r})"
            raise exhausted(error) or RemoteProtocolError(reason) from error

    def _tidy(self) -> None:
        """Objects that were made for an iteration live through it: collections during it need not visit them."""
        if not any(part.is_playing for part in self._parts.values()):  # they would be stopped by a collection
            gc.collect()
            gc.freeze()

    async def _report_progress(self) -> None:
        while True:
            before_s = time.thread_time()
            for number, progress in self._progress().items():
                self._link.send(progress, number)
            if self._is_leaving:
                self._link.send(control.Progress(0, 0, self._flows.has_moved(), self._flows.waiting_on))
            cost_s = time.thread_time() - before_s
            await asyncio.sleep(progress_interval_s(cost_s, report_interval_s=self._report_interval_ns / NS_PER_S))

    def _progress(self) -> Mapping[int, control.Progress]:
        found = {number: part.progress() for number, part in self._parts.items()}
        if self._metrics is not None:
            self._metrics.progressed(
                bytes_sent=sum(one.bytes_sent for one in found.values()),
                nodes_done=sum(one.events for one in found.values()),
                strange_packets=sum(part.strange_packets() for part in self._parts.values()),
            )
        return found

    def _stop_and_count(self) -> None:
        """Stop all traffic at once, then report what was counted so far."""
        self._flows.close()
        for part in self._parts.values():
            part.stop()
        self._count()

    def _count(self) -> None:
        """Report the counters of jobs that have not ended, and what came of the flows."""
        self._progress()  # the metrics must show the complete run
        for part in self._parts.values():
            part.count()
        for report in self._flows.reports():
            self._link.send(report)

    def _fail(self, reason: str, between: tuple[int, int] | None = None, *, job: int | None = None) -> None:
        if not self._failure.done():
            self._failed_job, self._unreachable = job, between or ()
            self._failure.set_exception(EmulatorError(reason))

    async def _send_abort(self, reason: str) -> None:
        """Send the reason to the controller and wait until it closes the stream, which it does after reading it.

        Closing the stream first would drop what the controller has not read yet.
        """
        self._link.send(control.Abort(reason, self._unreachable), self._failed_job)
        with contextlib.suppress(asyncio.TimeoutError):
            async with asyncio.timeout(REFUSAL_S):
                await self._drained()
        if self._receiving is not None:
            self._receiving.cancel()
            await asyncio.gather(self._receiving, return_exceptions=True)

    def _on_loop_error(self, loop: asyncio.AbstractEventLoop, context: Mapping[str, Any]) -> None:
        error = context.get("exception")
        if is_of_grpc_poller(str(context.get("message")), error):
            return
        known = error if isinstance(error, EmulatorError) or error is None else exhausted(error)
        if known is not None:
            self._fail(str(known))
        else:
            self._fail(f"internal error in agent {self._name}: {error!r} ({context.get('message')})")


def progress_interval_s(cost_s: float, *, report_interval_s: float) -> float:
    """When to report progress again, if it takes the processor `cost_s` to do so."""
    shortest, longest = PROGRESS_S
    return min(max(cost_s / _PROGRESS_SHARE, 4 * report_interval_s, shortest), longest)


@contextlib.asynccontextmanager
async def _background(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def _hello(claims: str, name: str, *, stays: bool, ports: Ports | None) -> control.Hello:
    return control.Hello(
        oldest_version=control.OLDEST_VERSION,
        newest_version=control.NEWEST_VERSION,
        claims=claims,
        nonce=new_nonce(),
        agent=name,
        pid=os.getpid(),
        hostname=socket.gethostname(),
        software=VERSION,
        clock_ns=time.monotonic_ns(),
        clock_id=clock_id(),
        stays=stays,
        ports=() if ports is None else ports.offered(),
        facts={
            "kernel": platform.release(),
            "machine": platform.machine(),
            "build": BUILD,
            "python": platform.python_version(),
            "cpus": str(len(os.sched_getaffinity(0))),
            "event_loop": "uvloop" if "uvloop" in sys.modules else "asyncio",
        },
    )
