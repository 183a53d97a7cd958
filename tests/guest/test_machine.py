import os
from pathlib import Path

import pytest

from tests.guest.image import NoGuest
from tests.guest.machine import Guest


def test_without_an_image_it_says_what_makes_one_and_goes_down_all_the_same(tmp_path: Path) -> None:
    guest = Guest(tmp_path / "image")
    with pytest.raises(NoGuest, match="needs root" if os.geteuid() else "is not built: python -m tests.guest.image"):
        guest.up()
    guest.down()
    assert list(tmp_path.iterdir()) == []
