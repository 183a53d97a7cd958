"""Documents against the JSON Schemas of this package."""

from __future__ import annotations

import json
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jsonschema import Draft202012Validator, ValidationError


def first_problem(document: Any, *, package: str, schema: str) -> ValidationError | None:
    """The most important problem of a document; None if it is valid.

    Args:
        package: that contains the schema.
        schema: file name of the schema.
    """
    from jsonschema.exceptions import best_match  # a tenth of a second, which not every command needs

    found: ValidationError | None = best_match(_validator(package, schema).iter_errors(document))
    return found


@cache
def _validator(package: str, schema: str) -> Draft202012Validator:
    from jsonschema import Draft202012Validator

    text = resources.files(package).joinpath(schema).read_text(encoding="utf-8")
    return Draft202012Validator(json.loads(text))
