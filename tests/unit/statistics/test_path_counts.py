"""What agents say of the paths of sprayed flows, added up."""

from dataclasses import replace

from emulator.control.parameter import Parameter
from emulator.run_folder.manifest import HostFacts
from emulator.statistics.path_counts import path_counts
from emulator.views.network_text import describe_paths
from tests.support.runs import manifest as make_manifest


def facts(*packets: int, lost: int = 0) -> dict[str, Parameter]:
    names = ("retransmits", "trimmed", "marked", "retirements")
    found = {f"multipath.path{at}.packets": Parameter(count, "packets") for at, count in enumerate(packets)}
    found |= {f"multipath.path{at}.{name}": Parameter(0) for at in range(len(packets)) for name in names}
    return found | {f"multipath.path{at}.lost": Parameter(lost * at) for at in range(len(packets))}


def test_agents_are_added_up_by_path() -> None:
    host = HostFacts(agent="a", transport=facts(10, 20, lost=3))
    manifest = replace(make_manifest(), hosts=(host, replace(host, transport=facts(1, 2))))
    counts = path_counts(manifest)
    assert [(one.path, one.packets, one.lost) for one in counts] == [(0, 11, 0), (1, 22, 3)]
    assert describe_paths(counts) == "2: 11 to 22 packets each, lost 3 (path 1: 3)"
    assert describe_paths(counts[:1]) == "1: 11 packets"


def test_without_sprayed_flows_there_are_no_paths() -> None:
    assert path_counts(make_manifest()) == ()
