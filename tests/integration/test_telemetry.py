"""Runs that tell a real broker and a real scraper what they do, while it breaks and comes back."""

import contextlib
import gc
import logging
import re
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from emulator.annexes.telemetry.messages import Broker, Composer, IterationPayload, StatePayload
from emulator.annexes.telemetry.publishing import MqttPublisher
from emulator.host.metrics_endpoint import MOST_CONNECTIONS, MetricsEndpoint, new_registry
from tests.support.command import EXAMPLE, charkha, started, succeed, wait_for
from tests.support.mosquitto import Mosquitto, listening, mosquitto

QUICK = ("--iterations", "2", "--compute", "skip")


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Mosquitto]:
    with mosquitto(tmp_path) as running:
        yield running


async def _heard_of(broker: Mosquitto, *arguments: object, cwd: Path) -> list[tuple[str, dict[str, object], bool]]:
    async with listening(broker) as heard:
        with started("run", EXAMPLE, "--mqtt", broker.url, *arguments, cwd=cwd) as command:
            await heard.until("state", state="complete")
            assert command.finish().code == 0
        return heard.messages


async def test_a_run_tells_its_states_iterations_and_classes(broker: Mosquitto, tmp_path: Path) -> None:
    messages = await _heard_of(broker, *QUICK, "--out", tmp_path / "run", cwd=tmp_path)
    kinds = [topic.split("/")[2] for topic, _, _ in messages]
    assert kinds.count("iteration") == kinds.count("completions") == 3
    states = [payload["state"] for (_, payload, _), kind in zip(messages, kinds, strict=True) if kind == "state"]
    assert states == ["starting", "playing", "writing", "complete"]
    numbers = [payload["sequence"] for _, payload, _ in messages]
    assert numbers == sorted(numbers)


async def test_who_comes_later_sees_how_it_ended(broker: Mosquitto, tmp_path: Path) -> None:
    succeed("run", EXAMPLE, *QUICK, "--mqtt", broker.url, "--out", tmp_path / "run", cwd=tmp_path)
    async with listening(broker) as heard:
        await heard.until("state", state="complete")
        assert {retained for *_, retained in heard.messages} == {True}


async def test_a_killed_run_is_lost(broker: Mosquitto, tmp_path: Path) -> None:
    async with listening(broker) as heard:
        slow = ("--compute", "20", "--out", tmp_path / "run")
        with started("run", EXAMPLE, "--mqtt", broker.url, *slow, cwd=tmp_path) as command:
            await heard.until("state", state="playing")
            command.process.kill()
            await heard.until("state", state="lost")


def test_a_run_without_its_broker_is_as_good(tmp_path: Path) -> None:
    out = tmp_path / "run"
    done = succeed("run", EXAMPLE, *QUICK, "--mqtt", "mqtt://127.0.0.1:1", "--out", out, cwd=tmp_path)
    assert re.search(r"\d+ telemetry messages did not reach 127.0.0.1:1", done.stderr)
    assert (out / "manifest.json").exists()


async def test_after_an_outage_messages_come_in_order_and_the_oldest_are_missing(broker: Mosquitto) -> None:
    composer = Composer("r1")
    with MqttPublisher(Broker.parse(broker.url), will=composer.will(), buffer=10, grace_s=20) as publisher:
        async with listening(broker) as heard:
            publisher.offer(composer.compose(IterationPayload(**composer.envelope(), iteration=0, jct_ns=1)))
            await heard.until("iteration", sequence=1)
        broker.stop()
        for _ in range(30):
            publisher.offer(composer.compose(IterationPayload(**composer.envelope(), iteration=0, jct_ns=1)))
        broker.start()
        async with listening(broker) as heard:
            publisher.offer(composer.compose(StatePayload(**composer.envelope(), state="complete")))
            await heard.until("state", state="complete")
            numbers = [payload["sequence"] for _, payload, _ in heard.messages if payload["sequence"]]
    assert numbers == sorted(numbers)
    assert numbers[-1] == 32
    # One may have been on its way when the broker went: it is sent first. The subscriber may miss the first ones.
    assert publisher.dropped in (20, 21, 22)
    assert publisher.undelivered == 0


def test_a_broker_that_never_answers_leaves_nothing_behind(caplog: pytest.LogCaptureFixture) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        place, composer = Broker("127.0.0.1", silent.getsockname()[1]), Composer("r1")
        with MqttPublisher(place, will=composer.will(), grace_s=0.1) as publisher:
            publisher.offer(composer.will())
            called, _ = silent.accept()
        with called:
            gc.collect()
    assert publisher.undelivered == 1
    assert [one.getMessage() for one in caplog.records if one.levelno >= logging.ERROR] == []


def test_watch_follows_a_run_to_its_end(broker: Mosquitto, tmp_path: Path) -> None:
    with started("runs", "watch", broker.url, "--json", cwd=tmp_path) as watching:
        succeed("run", EXAMPLE, *QUICK, "--mqtt", broker.url, "--out", tmp_path / "run", cwd=tmp_path)
        done = watching.finish()
    assert done.code == 0, done.stderr
    assert '"state": "complete"' in done.stdout.splitlines()[-1]


def test_watch_names_a_broker_that_is_not_there(tmp_path: Path) -> None:
    done = charkha("runs", "watch", "mqtt://127.0.0.1:1", cwd=tmp_path)
    assert done.stdout.endswith("waiting for a run\n")
    assert done.code == 1
    assert "the broker 127.0.0.1:1 cannot be reached" in done.error


def test_prometheus_sees_the_run(tmp_path: Path) -> None:
    slow = ("--compute", "20", "--out", tmp_path / "run")
    with started("run", EXAMPLE, "--metrics", "0", *slow, cwd=tmp_path) as command:
        url = re.findall(r"metrics at (\S+)", command.process.stderr.readline())[0]

        def scrape() -> str | None:
            text = urllib.request.urlopen(url, timeout=60).read().decode()
            return text if re.search(r"^charkha_agent_payload_bytes.* [1-9]", text, re.MULTILINE) else None

        text = wait_for(scrape)
        assert re.search(r'^charkha_run_info\{.*trace=".*transformer-8r"', text, re.MULTILINE)
        assert "charkha_ranks 8.0" in text


def test_connections_that_ask_for_nothing_give_way_to_a_scrape() -> None:
    with MetricsEndpoint(new_registry(), ("127.0.0.1", 0)) as endpoint, contextlib.ExitStack() as stack:
        address = ("127.0.0.1", int(endpoint.url.split(":")[2].partition("/")[0]))
        idle = [stack.enter_context(socket.create_connection(address, timeout=60)) for _ in range(MOST_CONNECTIONS + 4)]
        assert urllib.request.urlopen(endpoint.url, timeout=60).status == 200
        assert [one.recv(1) for one in idle[:5]] == [b""] * 5
        idle[-1].sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        assert idle[-1].recv(8) == b"HTTP/1.0"


def test_metrics_have_one_path() -> None:
    with MetricsEndpoint(new_registry(), ("127.0.0.1", 0)) as endpoint:
        root = endpoint.url.removesuffix("metrics")
        assert "/metrics" in urllib.request.urlopen(root, timeout=60).read().decode()
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(f"{root}metrics/else", timeout=60)
