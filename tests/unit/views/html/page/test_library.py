from pathlib import Path

import pytest

from emulator.views.html.page import library
from emulator.views.html.page.packing import unpacked


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    library.packed_library.cache_clear()


def test_the_library_is_bundled_once_and_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    made: list[int] = []

    def bundle() -> str:
        made.append(1)
        return "window.vega = 1;"

    monkeypatch.setattr(library, "_bundle", bundle)
    first = library.packed_library()
    library.packed_library.cache_clear()
    assert library.packed_library() == first
    assert len(made) == 1
    assert unpacked(first) == "window.vega = 1;"
    assert len(list((tmp_path / "cache" / "charkha").iterdir())) == 1


def test_where_nothing_can_be_kept_it_is_made_each_time(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(library, "_bundle", lambda: "1;")
    (tmp_path / "cache").write_text("a file, where the folder should be", encoding="utf-8")
    assert library.packed_library()
