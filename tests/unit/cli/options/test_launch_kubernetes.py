"""`charkha launch`: what is printed, and what is refused before anything starts."""

from __future__ import annotations

import shlex

import pytest
import yaml

from emulator.cli.main import main
from tests.support.command import refused

PODS = "launch kubernetes -n 2 --image charkha:1"


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (f"{PODS} -- run x", "agents on several nodes need --interface NAME"),
        (f"{PODS} --interface eth0 -- run x", "control must not cross the device under test: give --network NAME"),
        (f"{PODS} --interface net1 --network a --name Big -- run x", "--name Big: use up to 42 small letters"),
        (f"{PODS} --interface net1 --network a --node-label x -- run x", "write NAME=VALUE"),
        (f"{PODS} --interface net1 --network a --send none -- run x", "--send none: there is no such file"),
        (f"{PODS} --interface net1 --network a --send x --print -- run x", "put them on a volume, --claim NAME"),
        (f"{PODS} --interface net1 --network a", "give the command after --"),
        (
            f"{PODS} --interface net1 --network a -- report x",
            "give the command after --: one of run, bench, controller",
        ),
        (f"{PODS} --interface net1 --network a -- run x --identity me.pem", "--identity: leave it out of the command"),
        ("launch ray -- run x", "the command needs --topology FILE"),
    ],
)
def test_what_cannot_be_launched(words: str, problem: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert problem in refused(*shlex.split(words), capsys=capsys)


@pytest.mark.parametrize(("option", "make"), [("", "charkha certs issue"), ("--insecure", "openssl rand -hex 24")])
def test_manifests_are_printed_with_a_way_to_make_the_secret(
    option: str, make: str, capsys: pytest.CaptureFixture[str]
) -> None:
    given = f"{PODS} --interface net1 --network lab/rail0 --name t {option} --print -- run x --json"
    assert main(shlex.split(given)) == 0
    shown = capsys.readouterr().out
    documents = list(yaml.safe_load_all(shown))
    assert [one["kind"] for one in documents] == ["Service", "Job", "Job"]
    (controller,) = documents[1]["spec"]["template"]["spec"]["containers"]
    assert controller["args"][:5] == ["run", "x", "--json", "--listen", "0.0.0.0:4790"]
    assert make in shown
    assert "kubectl create secret generic t --from-file" in shown
