from importlib import resources

import pytest
import vl_convert

from emulator.views.html.page.document import VEGA_LITE
from emulator.views.html.page.pictures import vega_lite

DOCUMENTS = sorted(
    path.name.removesuffix(".vl.json")
    for path in resources.files("emulator.views.html.page").joinpath("pictures").iterdir()
    if path.name.endswith(".vl.json")
)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_picture_is_vega_lite(name: str) -> None:
    document = dict(vega_lite(name))
    assert vl_convert.vegalite_to_vega(document | {"width": 300}, vl_version=VEGA_LITE)["marks"]
