"""The service with real runs: one at a time on a device, whoever asks and whatever is killed."""

import html
import os
import re
import secrets
import subprocess
import urllib.request
from pathlib import Path

import pyarrow.compute as pc
import pytest

from charkha.service import Client, HostError, Refusal, Role, State, User
from emulator.annexes.service.configuration import ServiceFolder
from emulator.annexes.service.serving import opened
from emulator.cli.main import main
from emulator.results.run_folder.reader import read_run
from emulator.results.run_folder.schema import RunTable
from tests.support.command import MARK, ROOT, charkha, marked, refused, succeed, wait_for
from tests.support.full import IS_FULL, variant
from tests.support.service import LONG, QUICK, add_users, running
from tests.support.skips import need


def traffic_ns(folder: Path, run: int) -> tuple[int, int]:
    """First post and last end of a run, on the clock of this machine."""
    samples = read_run(ServiceFolder(folder).run(run).results).table(RunTable.SAMPLES, ["post_ns", "done_ns"])
    return pc.min(samples["post_ns"]).as_py(), pc.max(samples["done_ns"]).as_py()


def wait_until_it_plays(client: Client, run: int) -> None:
    for event in client.follow_run(run):
        if "iteration 0 " in (event.log or ""):
            return
    raise AssertionError(event)


@pytest.mark.skipif(not IS_FULL, reason="takes 5 s: CHARKHA_FULL=1")
def test_two_users_share_a_device_and_a_killed_service_resumes(tmp_path: Path) -> None:
    tokens = add_users(tmp_path, ann=Role.OPERATOR, bob=Role.OPERATOR)
    environment = {**os.environ, MARK: (mark := secrets.token_hex(8))}
    with running(tmp_path, environment=environment) as service:
        ann, bob = service.client(tokens["ann"]), service.client(tokens["bob"])
        (first,) = ann.submit(dut="loopback", spec=LONG)
        (second,) = bob.submit(dut="loopback", spec=QUICK)
        with pytest.raises(Refusal, match="it is of ann"):
            bob.cancel_run(first.id)
        wait_until_it_plays(ann, first.id)
        assert [one.state for one in ann.get_queue("loopback")] == [State.RUNNING, State.WAITING]
        service.process.kill()
        service.process.wait()
        with pytest.raises(HostError, match="does not answer"):
            ann.who()
        with running(tmp_path, environment=environment) as again:
            ann = again.client(tokens["ann"])
            interrupted = ann.get_run(first.id)
            assert (interrupted.state, interrupted.reason) == (
                State.INTERRUPTED,
                "the service ended while it was playing",
            )
            assert [event.run.state for event in ann.follow_run(second.id) if event.run][-1] is State.COMPLETE
            assert ann.get_report(second.id)["status"] == "complete"
    assert wait_for(lambda: not marked(mark) or None)
    (_, end), (begin, _) = (traffic_ns(tmp_path, one.id) for one in (first, second))
    assert end < begin


def test_users_are_made_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(tmp_path / "lab")
    assert main(["serve", folder, "--user", "ann", "--role", "viewer"]) == 0
    token = capsys.readouterr().out.strip()
    with opened(ServiceFolder(tmp_path / "lab")) as store:
        assert store.user_of_token(token) == User(name="ann", role=Role.VIEWER)
        assert "another service has it" in refused("serve", folder)
    assert "--user: name" in refused("serve", folder, "--user", "a b")


def test_the_command_of_the_log_in_page_works_beside_the_running_service(tmp_path: Path) -> None:
    folder = tmp_path / "lab"
    tokens = add_users(folder, admin=Role.ADMIN)
    with running(folder) as service:
        with urllib.request.urlopen(f"{service.url}login") as page:
            shown = html.unescape(re.search(r"<code>(.*?)</code>", page.read().decode())[1])  # type: ignore[index]
        program, *words = shown.replace("FOLDER", str(folder)).replace("NAME", "ann").split()
        assert program == "charkha"
        made = succeed(*words, cwd=tmp_path)
        assert service.client(made.stdout.strip()).who() == User(name="ann", role=Role.OPERATOR)
        renewed = charkha(*words, "--role", "viewer", cwd=tmp_path)
        assert service.client(renewed.stdout.strip()).who().role is Role.VIEWER
        with pytest.raises(Refusal):
            service.client(made.stdout.strip()).who()
        assert service.client(tokens["admin"]).who().name == "admin"


@variant
def test_the_examples_of_the_page_run(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    need("curl")
    tokens = add_users(tmp_path, ann=Role.ADMIN)
    page = (ROOT / "docs" / "serve.md").read_text(encoding="utf-8")
    (program,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (command,) = re.findall(r"```console\n\$ (curl .*?)```", page, re.DOTALL)
    with running(tmp_path) as service:
        program, command = (one.replace("http://127.0.0.1:8760", service.url.rstrip("/")) for one in (program, command))
        command = command.replace('["rack7"]', '["two-hosts-switch"]')
        exec(compile(program, "serve.md", "exec"), {"token": tokens["ann"]})
        subprocess.run(["sh", "-c", command], env={**os.environ, "TOKEN": tokens["ann"]}, check=True)
        shown = capfd.readouterr().out
        assert "\ncomplete\n" in shown
        assert '"name":"switch-1"' in shown
        assert "switch-1" in {one.name for one in service.client(tokens["ann"]).list_duts()}
