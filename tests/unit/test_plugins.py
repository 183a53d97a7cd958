import pytest

from emulator.annexes.exports.formats import Format
from emulator.annexes.importers.model import Importer
from emulator.annexes.launch.launch_here import EngineOptions
from emulator.errors import InputError
from emulator.plugins import BUILT_IN, PluginKind, load


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, names in BUILT_IN.items() for name in names])
def test_every_built_in_is_what_its_kind_asks_for(kind: PluginKind, name: str) -> None:
    expected = {PluginKind.IMPORTERS: Importer, PluginKind.EXPORTS: Format, PluginKind.ENGINES: EngineOptions}
    plugin = load(kind, name)
    assert isinstance(plugin, expected[kind]) if kind in expected else callable(plugin)
    assert kind not in (PluginKind.IMPORTERS, PluginKind.EXPORTS) or plugin.name == name


def test_a_wrong_name_gets_the_right_one() -> None:
    with pytest.raises(InputError, match="did you mean 'perfetto'"):
        load(PluginKind.EXPORTS, "perfeto")
