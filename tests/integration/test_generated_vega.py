"""The bundle of JavaScript in the package is what its generator makes."""

import subprocess
import sys
from pathlib import Path

from emulator.views.html.page.document import packed_library
from tests.support.command import ROOT


def test_the_bundle_in_the_package_is_up_to_date(tmp_path: Path) -> None:
    # A process of its own: a second bundle of one process has other names in it.
    subprocess.run([sys.executable, "-m", "lab.scripts.generate_vega", tmp_path], cwd=ROOT, check=True, timeout=60)
    (made,) = tmp_path.iterdir()
    assert made.read_text() == packed_library(), "run python -m lab.scripts.generate_vega"
