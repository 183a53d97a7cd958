"""`charkha agent launch`: what is printed, and what is refused before anything starts."""

import shlex

import pytest
import yaml

from emulator.cli.main import main

PODS = "agent launch kubernetes -n 2 --image charkha:1"


@pytest.mark.parametrize(
    ("option", "make"), [("", "charkha agent certs issue"), ("--insecure", "openssl rand -hex 24")]
)
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
