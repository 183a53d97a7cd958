import numpy as np
import pyarrow as pa
import pytest

from emulator.results.run_folder.schema import RunTable, to_batch


@pytest.mark.parametrize(
    ("columns", "problem"),
    [
        ({"what": [1]}, "what"),
        ({"src": [1, 2], "dst": [1], "bytes": 0, "messages": 0}, "dst has 1 rows"),
        ({"src": [1], "bytes": 0, "messages": 0}, "dst has missing values"),
    ],
)
def test_rows_that_do_not_fit_the_schema_are_an_error(columns: dict[str, object], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        to_batch(RunTable.FLOWS.schema, columns)


@pytest.mark.parametrize("part", list(RunTable))
def test_a_table_has_two_file_names_and_a_schema(part: RunTable) -> None:
    assert part.file_name == f"{part.value}.parquet"
    assert part.stream_name == f"{part.value}.partial.arrows"
    assert to_batch(part.schema, {name: [] for name in part.schema.names}).num_rows == 0


def test_what_every_run_has_is_not_optional() -> None:
    assert [part for part in RunTable if not part.is_optional] == [
        RunTable.SAMPLES,
        RunTable.ITERATIONS,
        RunTable.FLOWS,
    ]


def test_one_value_fills_a_column_and_nullable_columns_can_be_omitted() -> None:
    batch = to_batch(
        RunTable.FLOWS.schema, {"src": 3, "dst": [1, 2], "bytes": np.array([5, 6]), "messages": pa.array([1, 1])}
    )
    rows = batch.to_pylist()
    assert [(one["src"], one["dst"], one["bytes"], one["messages"], one["naks"]) for one in rows] == [
        (3, 1, 5, 1, None),
        (3, 2, 6, 1, None),
    ]


def test_values_alone_are_one_row() -> None:
    assert to_batch(RunTable.FLOWS.schema, {"src": 0, "dst": 1, "bytes": 2, "messages": 3}).num_rows == 1


def test_labels_become_a_dictionary_and_a_mask_becomes_null() -> None:
    columns = {"time_ns": [1, 2], "device": "sw0", "interface": ["p0", "p1"], "counter": "drops", "value": [1, 2]}
    batch = to_batch(RunTable.COUNTERS.schema, columns)
    assert batch["device"].dictionary.to_pylist() == ["sw0"]
    masked = np.ma.masked_array([7, 8], [False, True])
    flows = to_batch(RunTable.FLOWS.schema, {"src": 0, "dst": [1, 2], "bytes": 0, "messages": 0, "naks": masked})
    assert flows["naks"].to_pylist() == [7, None]


def test_a_column_of_the_wrong_type_is_an_error() -> None:
    with pytest.raises(ValueError, match="Could not convert"):
        to_batch(RunTable.FLOWS.schema, {"src": ["a"], "dst": 1, "bytes": 2, "messages": 3})
