"""Every kind of input: good examples of it, and what a command does with one before any traffic."""

import asyncio
import atexit
import base64
import hmac
import io
import json
import pickle
import re
import urllib.parse
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import cache, partial
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import aiohttp
import pyarrow as pa
import pyarrow.parquet as pq
import yaml
from google.protobuf.json_format import MessageToJson, ParseError
from google.protobuf.message import Message
from yarl import URL

from charkha.service import Role as ServiceRole
from emulator._pb import et_pb2
from emulator.annexes.bench_kit.audit.audit import audit_file
from emulator.annexes.bench_kit.audit.command import render as render_audit
from emulator.annexes.bench_kit.audit.report import to_json as audit_to_json
from emulator.annexes.exports.formats import export
from emulator.annexes.importers.importing import import_trace, importer_named
from emulator.annexes.launch.authority import CERTIFICATE, KEY, issue, issue_token, make_authority
from emulator.annexes.series.suite_document import read_suite
from emulator.annexes.service.configuration import ServiceFolder, read_configuration
from emulator.annexes.workloads.mooncake import read_requests
from emulator.control.certificates.identity import check_identity
from emulator.control.certificates.roles import Role
from emulator.control.certificates.signature import check_signature
from emulator.control.certificates.tokens import holder_of
from emulator.control.wire.tls import TlsFiles
from emulator.controller.roster.listen_address import ListenAddress
from emulator.device.profile.load import load_profile
from emulator.errors import InputError, PlanError, RemoteProtocolError
from emulator.experiment.play.outcome import stored_result
from emulator.experiment.settle.defaults import resolve
from emulator.experiment.settle.settled import planned_flows
from emulator.experiment.settle.workload import load_from_files
from emulator.experiment.spec.document import name_of, read_experiment, to_yaml
from emulator.experiment.spec.spec import Trace
from emulator.plugins import BUILT_IN, PluginKind, load
from emulator.results.comparison.comparability import check_comparability
from emulator.results.comparison.groups import groups_of
from emulator.results.comparison.verdicts import ComparisonRules as ComparisonRules
from emulator.results.comparison.verdicts import compare
from emulator.results.run_folder.manifest import MANIFEST, PARTIAL_MANIFEST, SESSION
from emulator.results.run_folder.reader import Run, read_run
from emulator.results.run_folder.schema import RunTable
from emulator.results.run_folder.session import load_session
from emulator.results.run_folder.store import RunFilter, list_runs
from emulator.results.statistics.method.distribution import distributions
from emulator.results.statistics.samples.iterations import measurements
from emulator.results.statistics.summary import summarise
from emulator.results.statistics.worst.stragglers import lateness
from emulator.results.verdict.judge import judge
from emulator.results.verdict.rules import EXAMPLE, load_rules
from emulator.shipped import PROFILES, TOPOLOGIES, shipped_suites
from emulator.topology.load import load_topology
from emulator.trace.files.master import write_master
from emulator.trace.meaning.workload import build_workload
from emulator.views.as_json import runs_to_json, statistics_to_json, summary_to_json, verdict_to_json
from emulator.views.html.facts import read_facts
from emulator.views.html.page.document import render
from emulator.views.html.run_page import facts_to_json, run_page
from emulator.views.terminal.store_table import render_runs, render_statistics
from emulator.views.terminal.summary_table import render as render_summary
from tests.property.test_trace_files import GRAPH, METADATA, NODES
from tests.support.import_fields import (
    ALIKE,
    SAMPLES,
    convert,
    effective_places,
    named,
    outcome,
    recording,
    seen,
    write_documents,
)
from tests.support.import_sources import WRITERS
from tests.support.msccl_files import ring_all_reduce
from tests.support.mutants import (
    NUMBERS,
    TEXTS,
    Raw,
    damaged_bytes,
    damaged_document,
    damaged_records,
    damaged_text,
    damaged_words,
    different_places,
    with_other_values,
    without_raw,
    written,
)
from tests.support.otg import configuration
from tests.support.pytorch_traces import (
    HostDocument,
    KinetoDocument,
    data_parallel_host,
    data_parallel_rank,
    flat_host,
    gloo_rank,
)
from tests.support.random_traces import random_traces
from tests.support.roce_capture import MTU, Conversation, pcap, pcapng
from tests.support.service import QUICK, add_users, in_this_process
from tests.support.trace_files import attribute, collective, compute, file_operation, trace_bytes
from tests.unit.annexes.topologies.test_containerlab import CLAB
from tests.unit.annexes.topologies.test_infragraph import COMBINED, INFRAGRAPH

GROUPS = '[{"pg_name": "0", "ranks": [], "group_size": 2}, {"pg_name": "1", "ranks": [0, 1]}]'
DATA = Path(__file__).parents[1] / "data"
INPUTS = DATA / "inputs"


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of input.

    Attributes:
        name: for the table.
        mutant: writes a damaged example into an empty folder, and returns what a command would be given.
        take: does what commands do with it; raises InputError if it is refused.
    """

    name: str
    mutant: Callable[[Path, Random], Any]
    take: Callable[[Any], object]


def _file(name: str, make: Callable[[Random], bytes]) -> Callable[[Path, Random], Path]:
    def mutant(folder: Path, chance: Random) -> Path:
        path = folder / name
        path.write_bytes(make(chance))
        return path

    return mutant


def _one_of(files: Callable[[], Sequence[tuple[str, bytes]]], damage: Callable[[bytes, Random], bytes]):
    """A folder of files of which one is damaged."""

    def mutant(folder: Path, chance: Random) -> Path:
        known = files()
        damaged = chance.randrange(len(known))
        for number, (name, data) in enumerate(known):
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_bytes(damage(data, chance) if number == damaged else data)
        return folder

    return mutant


def _yaml(*documents: str | Callable[[], str], name: str = "x.yaml") -> Callable[[Path, Random], Path]:
    """A file made of documents in tests/data/inputs, or of others."""

    @cache
    def parsed() -> list[Any]:
        texts = [(INPUTS / f"{one}.yaml").read_text() if isinstance(one, str) else one() for one in documents]
        return list(map(yaml.safe_load, texts))

    return _file(name, lambda chance: damaged_document(chance.choice(parsed()), chance, is_yaml=True))


_loaded = cache(json.loads)


def _json(data: bytes, chance: Random) -> bytes:
    return damaged_document(_loaded(data), chance)


# --- traces ---------------------------------------------------------------------------------------------------------


def _played(path: Path) -> None:
    """What `charkha trace check` does with a trace."""
    load_from_files(Trace(path=str(path), ranks=1 if path.is_dir() and len(list(path.iterdir())) == 1 else None))


@cache
def _traces() -> list[Sequence[Message]]:
    """Metadata and nodes: two ranks that can be played, and a rank of every kind of node, which cannot."""
    group = attribute("pg_name", string_val="1")
    send = {"id": 4, "type": et_pb2.COMM_SEND_NODE, "ctrl_deps": [3]}
    ranks = []
    for rank in range(2):
        kind = et_pb2.COMM_RECV_NODE if rank else et_pb2.COMM_SEND_NODE
        ends = {"comm_src": 0, "comm_dst": 1, "comm_size": 9, "comm_tag": 7}
        nodes = [
            compute(0, duration_micros=4),
            compute(2, ctrl_deps=[0], attr=[attribute("rf_id", int64_val=3), attribute("is_cpu_op", bool_val=True)]),
            collective(3, group, data_deps=[0, 2]),
            et_pb2.Node(**send | {"type": kind}, attr=[attribute(name, int32_val=one) for name, one in ends.items()]),
            file_operation(5, et_pb2.FsOp.FS_OP_PWRITE, 1 << 20, ctrl_deps=[4]),
        ]
        init = et_pb2.Node(
            id=1, name="## process_group:init ##", type=et_pb2.METADATA_NODE, inputs=et_pb2.IOInfo(values=GROUPS)
        )
        ranks.append([METADATA, init, *nodes])
    return [*ranks, [METADATA, *NODES]]


def _trace(name: str, damage: Callable[[Sequence[Message], Random], bytes]) -> Callable[[Path, Random], Path]:
    def mutant(folder: Path, chance: Random) -> Path:
        good, other, wide = _traces()
        if chance.random() < 0.3:
            (folder / f"t.0.{name}").write_bytes(damage(wide, chance))
        else:
            (folder / f"t.0.{name}").write_bytes(trace_bytes(good[1:], METADATA))
            (folder / f"t.1.{name}").write_bytes(damage(other, chance))
        return folder

    return mutant


def _et(messages: Sequence[Message], chance: Random) -> bytes:
    if chance.random() < 0.8:
        return damaged_records([one.SerializeToString() for one in messages], chance)
    return damaged_bytes(trace_bytes(messages[1:], METADATA), chance)


@cache
def _json_of(number: int) -> list[Any]:
    return [json.loads(MessageToJson(one)) for one in _traces()[number]]


def _chakra(folder: Path, chance: Random) -> Path:
    if chance.random() < 0.2:
        (folder / "t.0.json").write_bytes(damaged_document(json.loads(GRAPH), chance))
        return folder
    ranks = [_json_of(2)] if chance.random() < 0.3 else [_json_of(0), _json_of(1)]
    for rank, objects in enumerate(ranks):
        number = chance.randrange(len(objects)) if rank == len(ranks) - 1 else -1
        parts = [damaged_document(one, chance) if at == number else written(one) for at, one in enumerate(objects)]
        (folder / f"t.{rank}.json").write_bytes(b"\n".join(parts))
    return folder


@cache
def _master() -> tuple[bytes, pa.Table]:
    traces = random_traces(7)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "x.parquet"
        write_master(path, build_workload(traces), traces, name="x")
        return path.read_bytes(), pq.read_table(path)


def _damaged_master(chance: Random) -> bytes:
    data, table = _master()
    if chance.random() < 0.5:
        return damaged_bytes(data, chance)
    table = _other_table(table, chance)
    if chance.random() < 0.3:
        facts = dict(table.schema.metadata or {})
        for key, value in facts.items():
            facts[key] = damaged_document(json.loads(value), chance) if value[:1] == b"{" else value
        table = table.replace_schema_metadata(facts)
    return _parquet(table)


def _group_file(folder: Path, chance: Random) -> Path:
    for rank, messages in enumerate(_traces()[:2]):
        (folder / f"t.{rank}.et").write_bytes(trace_bytes(messages[1:], METADATA))
    groups = {"0": [0, 1], "1": [0, 1], "2": [0]}
    (folder / "comm_group.json").write_bytes(damaged_document(groups, chance))
    return folder


# --- importers ------------------------------------------------------------------------------------------------------


def _imported(importer: str) -> Callable[[Path], None]:
    def take(path: Path) -> None:
        trace = import_trace(importer_named(importer), path)
        for rank in trace.ranks:
            assert all(dep < node.node_id for node in rank.nodes for dep in node.deps)
            assert all(node.duration_ns >= 0 and node.start_ns >= 0 for node in rank.nodes)
        with TemporaryDirectory(dir=path.parent) as made:
            convert(trace, Path(made) / "t")

    return take


@cache
def _sample(name: str) -> list[tuple[str, bytes]]:
    with TemporaryDirectory() as folder:
        WRITERS[name][1](Path(folder))
        return [(path.name, path.read_bytes()) for path in sorted(Path(folder).iterdir())]


HOSTILE = (b"cos\nsystem\n(S'true'\ntR.", b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x04true\x85R.", b"\x82\x01R")


def _of_importer(data: bytes, chance: Random) -> bytes:
    if data.startswith(b"\x80"):
        if chance.random() < 0.3:
            at, hostile = chance.randrange(len(data)), chance.choice((b"", *HOSTILE))
            return data[:at] + hostile + data[at:] if hostile else damaged_bytes(data, chance)
        junk = [1 << 70, 10**400, float("nan"), float("inf"), b"\xff", (1, 2), {1: 2}, {(1,): 2}, "\udc80"]
        dump = with_other_values(pickle.loads(data), chance, junk=junk)
        return pickle.dumps(without_raw(dump), protocol=chance.choice((2, 4, 5)))
    lines = data.splitlines()
    if lines[0][:1] == b"{" and chance.random() < 0.8:
        at = chance.randrange(len(lines))
        lines[at] = damaged_document(json.loads(lines[at]), chance)
        return b"\n".join(lines) + b"\n"
    if data.startswith(b"traffic_patterns") and chance.random() < 0.8:
        return damaged_document(yaml.safe_load(data), chance, is_yaml=True).replace(b'"matrix', b'\n"matrix')
    return damaged_text(data, chance)


PYTORCH: Mapping[str, Sequence[Callable[[int], HostDocument | KinetoDocument]]] = {
    "Kineto": [partial(data_parallel_rank, ranks=2)],
    "host": [data_parallel_host],
    "Kineto and host": [partial(data_parallel_rank, ranks=2), data_parallel_host],
    "host of schema 1.0.1": [flat_host],
    "Gloo": [gloo_rank],
}


@cache
def _pytorch(name: str) -> list[tuple[str, bytes]]:
    documents = [make(rank).document() for make in PYTORCH[name] for rank in range(2)]
    return [(f"trace_{at}.json", json.dumps(one).encode()) for at, one in enumerate(documents)]


REQUESTS = b"".join(
    json.dumps({"timestamp": at, "input_length": 700, "output_length": 52, "hash_ids": [46, 47]}).encode() + b"\n"
    for at in (27482, 30535.5)
)


def _other_fields(sample: str, folder: Path, chance: Random) -> tuple[Path, Sequence[str]]:
    """A recording in which one to three values are different, and the fields of which one should make a difference."""
    documents = recording(sample)
    file = chance.choice(sorted(documents))
    number = chance.randrange(len(documents[file]))
    before = documents[file][number]
    those = [*documents[file]]
    after = with_other_values(before, chance)
    those[number] = [after] if isinstance(before, list) and not isinstance(after, list) else after  # words of a line
    try:
        write_documents(folder, sample, {**documents, file: those})
    except (ParseError, TypeError):  # there is no such .et file
        write_documents(folder, sample, documents)
        return folder, []
    if (folder / file).read_bytes() == _undamaged_bytes(sample)[file]:  # "4." is the number 4 in an .et file
        return folder, []
    changed = list(different_places(before, those[number]))
    effective = [keys for name, at, keys in effective_places(sample) if (name, at) == (file, number)]
    found = {
        named(before, one)
        for one in effective
        for path in changed
        if one[: len(path)] == path and not _is_alike(sample, before, after, one)
    }
    return folder, sorted(found)


def _is_alike(sample: str, before: Any, after: Any, path: tuple[Any, ...]) -> bool:
    """Whether a field, or what holds it, has another value that is the same to the reader."""
    document = before
    for length, key in enumerate(path, 1):
        try:
            before, after = before[key], after[key]
        except (LookupError, TypeError):  # it is not there any more
            return False
        alike = ALIKE.get(sample, {}).get(named(document, path[:length]))
        if alike is not None and alike.are(before, after):
            return True
    return False


@cache
def _undamaged_bytes(sample: str) -> Mapping[str, bytes]:
    with TemporaryDirectory() as folder:
        write_documents(Path(folder), sample, recording(sample))
        return {path.name: path.read_bytes() for path in Path(folder).iterdir()}


@cache
def _undamaged(sample: str) -> object:
    return outcome(sample, recording(sample))


def _differs(sample: str) -> Callable[[tuple[Path, Sequence[str]]], None]:
    def take(given: tuple[Path, Sequence[str]]) -> None:
        folder, changed = given
        same = seen(folder, sample, is_converted=True) == _undamaged(sample)
        assert not (same and changed), f"passed over: {', '.join(changed)}"

    return take


# --- documents ------------------------------------------------------------------------------------------------------


def _run_spec(path: Path) -> None:
    """What `charkha run -f` settles before it loads a trace or looks at this host."""
    experiment = read_experiment(path)
    to_yaml(experiment)
    topology = load_topology(Path("leaf-spine-2x2"), ranks=4)
    try:
        planned_flows(experiment, topology, resolve(experiment, topology))
    except PlanError as error:  # names the setting: the command line could have set it as well
        raise PlanError(f"{path}: {error}") from error


SHIPPED = [path.read_text for path in TOPOLOGIES.paths.values() if "large" not in path.name]


def _named_algorithm(path: Path) -> None:
    name_of(str(path))


def _rules(path: Path) -> None:
    load_rules(str(path))


def _suite(path: Path) -> None:
    read_suite(path).digest  # noqa: B018 (takes every case)


# --- stored runs ----------------------------------------------------------------------------------------------------


@cache
def _stored() -> tuple[dict[str, bytes], dict[str, pa.Table]]:
    """Files of a run that has every table, and the tables."""
    folder = DATA / "run-0.1.0"
    files = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    tables = {part.file_name: pq.read_table(folder / part.file_name) for part in RunTable if part.file_name in files}
    for part in RunTable:
        if part.file_name not in tables:
            columns = {one.name: _plain_column(one) for one in part.schema}
            tables[part.file_name] = pa.table(columns, schema=part.schema)
            files[part.file_name] = _parquet(tables[part.file_name])
    manifest = json.loads(files[MANIFEST])
    manifest["spec"] = {"charkha": 1, "jobs": [{"trace": {"path": "t"}}]}
    manifest["settings"] = [{"name": "seed", "value": 0}]
    files[MANIFEST] = json.dumps(manifest).encode()
    return files, tables


def _plain_column(field: pa.Field) -> pa.Array:
    if field.name == "direction":
        return pa.array(["sent", "received"]).cast(field.type)
    values: list[Any] = [0, 1] if field.name in ("src", "rank") else [1, 0]
    if pa.types.is_dictionary(field.type) or pa.types.is_string(field.type):
        return pa.array(["background", "background"]).cast(field.type)
    if pa.types.is_boolean(field.type):
        return pa.array([True, False])
    return pa.array(values).cast(field.type)


def _parquet(table: pa.Table, *, is_plain: bool = False) -> bytes:
    nullable = [one.with_nullable(one.nullable or bool(table[at].null_count)) for at, one in enumerate(table.schema)]
    table = table.cast(pa.schema(nullable, table.schema.metadata))
    made = io.BytesIO()
    pq.write_table(table, made, compression="none" if is_plain else "zstd", use_dictionary=not is_plain)
    return made.getvalue()


def _other_table(table: pa.Table, chance: Random) -> pa.Table:
    """A table with another value, type or number of columns or rows."""
    at, how = chance.randrange(table.num_columns), chance.random()
    field, column = table.schema.field(at), table.column(at)
    if how < 0.1:
        return table.remove_column(at)
    if how < 0.2:
        return table.slice(chance.randrange(table.num_rows + 1), chance.randrange(table.num_rows + 1))
    if how < 0.3:
        return table.set_column(at, chance.choice(table.column_names), column)
    if how < 0.4:
        kind = chance.choice((pa.string(), pa.int64(), pa.float64(), pa.bool_(), pa.list_(pa.int32()), pa.binary()))
        return table.set_column(at, field.name, pa.nulls(table.num_rows, kind))
    values = column.to_pylist()
    if not values:
        return table
    numbers = (-1, -2, 119, 1 << 30, -(1 << 31), (1 << 31) - 1, (1 << 63) - 1, -(1 << 63), (1 << 64) - 1, 0, None)
    junk: tuple[Any, ...] = numbers
    if pa.types.is_floating(field.type):
        junk = (float("nan"), float("inf"), -1.0, 1e308, None)
    elif pa.types.is_dictionary(field.type) or pa.types.is_string(field.type):
        junk = ("", "x", "a" * 1000, "<b>", "\n", "all_reduce", "é", None)
    elif pa.types.is_boolean(field.type):
        junk = (True, False, None)
    for _ in range(chance.choice((1, 1, len(values)))):
        values[chance.randrange(len(values))] = chance.choice(junk)
    with suppress(pa.ArrowException, OverflowError):
        nullable = pa.field(field.name, field.type, nullable=field.nullable)
        return table.set_column(at, nullable, pa.array(values, field.type))
    return table


def _stored_run(is_table: bool) -> Callable[[Path, Random], tuple[Path, str]]:
    def mutant(folder: Path, chance: Random) -> tuple[Path, str]:
        files, tables = _stored()
        name = chance.choice(sorted(tables)) if is_table else MANIFEST
        for other, data in files.items():
            (folder / other).write_bytes(data)
        if not is_table:
            damaged = damaged_document(json.loads(files[MANIFEST]), chance)
        elif chance.random() < 0.5:
            damaged = _parquet(_other_table(tables[name], chance))
        else:
            damaged = damaged_bytes(_parquet(tables[name], is_plain=chance.random() < 0.7), chance)
        (folder / name).write_bytes(damaged)
        return folder, chance.choices(*_weighted_uses())[0]

    return mutant


@cache
def _streams() -> dict[str, bytes]:
    """The tables of a run that goes on, or was left by a crash."""
    made = {}
    for part in RunTable:
        table, written = _stored()[1][part.file_name], io.BytesIO()
        with pa.ipc.new_stream(written, table.schema) as stream:
            stream.write_table(table)
            stream.write_table(table)
        made[part.stream_name] = written.getvalue()
    return made


def _open_run(folder: Path, chance: Random) -> tuple[Path, str]:
    (folder / PARTIAL_MANIFEST).write_bytes(_stored()[0][MANIFEST])
    for name, data in _streams().items():
        (folder / name).write_bytes(data)
    name = chance.choice(sorted(_streams()))
    (folder / name).write_bytes(damaged_bytes(_streams()[name], chance))
    return folder, chance.choices(*_weighted_uses())[0]


@cache
def _weighted_uses() -> tuple[list[str], list[int]]:
    """What is done with stored runs, and how often: pages and tables of all figures take ten times as long."""
    slow = {"report": 1, "runs show": 2, "expect": 3, "export junit": 2, "export csv": 4}
    names = [*_USES, *(f"export {one}" for one in BUILT_IN[PluginKind.EXPORTS])]
    return names, [slow.get(one, 10) for one in names]


def _report(run: Run) -> None:
    facts = read_facts(run)
    json.dumps(facts_to_json(facts))
    run_page(facts)


def _show(run: Run) -> None:
    summary, found = summarise(run), measurements(run)
    classes, late = distributions(found), [lateness(run, "post"), lateness(run, "done")]
    json.dumps(statistics_to_json(classes, late, incomplete=found.incomplete))
    json.dumps(summary_to_json(summary))
    render_summary(summary)
    render_statistics(classes, late, incomplete=found.incomplete)


def _expect(run: Run) -> None:
    json.dumps(verdict_to_json(judge(summarise(run), load_rules(EXAMPLE))))


def _list(run: Run) -> None:
    found = list_runs(run.folder.parent, RunFilter(trace="*", dut="*"))
    json.dumps(runs_to_json(found))
    render_runs(found, run.folder.parent)


def _compare(run: Run) -> None:
    groups = groups_of({"a": [DATA / "run-v1"], "b": [run.folder]})
    compare(groups, check_comparability(groups), ComparisonRules(resamples=20))


_USES: dict[str, Callable[[Run], None]] = {
    "report": _report, "runs show": _show, "expect": _expect, "runs list": _list, "compare": _compare
}  # fmt: skip


def _used(stored: tuple[Path, str]) -> None:
    folder, use = stored
    run = read_run(folder)
    if use in _USES:
        _USES[use](run)
    else:
        export(run, load(PluginKind.EXPORTS, use.removeprefix("export ")), folder / "out")


_FIGURE = {"value": 1.5, "low": 1.0, "high": 2.0}
_JOB = {"job": "a", "jct_ns": 1.5, "factor": _FIGURE, "covered": 1, "left_out": 1}
_POINT = {"runs": 2, "unit": "runs", "jct_ns": _FIGURE, "collective": "all_reduce", "busbw_bytes_per_s": _FIGURE}
_CHECK = {"outcome": "PASS", "text": "t", "metric": "jct", "about": "", "unit": "ns", "value": 1.5, "bound": "3 ms"}
_RECORDS: Mapping[str, Mapping[str, Any]] = {
    "sweep.json": {
        **{"charkha_sweep_result": 1, "name": "n", "written": "2026-01-02T03:04:05+00:00", "spec": {}, "repeat": 2},
        "axes": [{"name": one, "setting": one, "values": ["1", "2"]} for one in ("qps", "seed")],
        "points": [
            {"values": {"qps": one, "seed": "1"}, "folder": f"qps={one}", "jobs": jobs, **_POINT}
            for one, jobs in (("1", []), ("2", [_JOB]))
        ],
    },
    "suite.json": {
        **{"charkha_suite_result": 1, "suite": "s", "digest": "d", "started": "2026-01-02T03:04:05+00:00"},
        **{"planned": 2, "clauses": [], "not_covered": ["x"]},
        "cases": [
            {
                **{"name": "c", "outcome": "PASS", "text": "t", "metric": "jct", "value": 1.5, "unit": "ns"},
                "runs": [{"folder": "c/1", "run_id": "r", "outcome": "PASS", "load": 3, "checks": [_CHECK]}],
            }
        ],
    },
}


def _series(folder: Path, chance: Random) -> Path:
    name = chance.choice(sorted(_RECORDS))
    (folder / name).write_bytes(damaged_document(json.loads(json.dumps(_RECORDS[name])), chance))
    return folder


def _reported(folder: Path) -> None:
    found = stored_result(folder)
    json.dumps(found.to_json())
    render(found.page(folder))


def _session(folder: Path, chance: Random) -> Path:
    document = {
        "session_id": "s", "created": "2026-01-02T03:04:05+00:00", "command_line": ["charkha"], "spec": {"jobs": []},
        "jobs": [{"name": "a", "run_id": "r", "offset_ns": 0, "start_ns": 5, "pace": "barrier"}], "format_version": 1,
    }  # fmt: skip
    (folder / SESSION).write_bytes(damaged_document(document, chance))
    return folder


# --- captures, certificates, tokens ---------------------------------------------------------------------------------


@cache
def _captures() -> list[bytes]:
    talk = Conversation()
    talk.write(3 * MTU)
    talk.ack(messages=1)
    talk.nak(2)
    talk.cnp()
    frames = [(one.time_ns or 0, one.data) for one in talk.captured()]
    return [pcap(frames), pcapng(frames)]


def _audit(path: Path) -> None:
    report = audit_file(path)
    json.dumps(audit_to_json(report))
    render_audit(report)


@cache
def _identity() -> tuple[bytes, bytes, bytes]:
    """An identity, and certificate and key of its authority."""
    with TemporaryDirectory() as folder:
        make_authority(Path(folder), name="lab")
        made = issue(Path(folder), "a", role=Role.AGENT, addresses=["h"], valid=timedelta(days=99)).path.read_bytes()
        return made, (Path(folder) / CERTIFICATE).read_bytes(), (Path(folder) / KEY).read_bytes()


_BLOCK = re.compile(rb"(-----BEGIN [A-Z ]+-----\n)(.*?)(-----END [A-Z ]+-----\n)", re.DOTALL)


def _damaged_pem(data: bytes, chance: Random) -> bytes:
    """Other bytes of the DER in one of the blocks, or of the text around it."""
    if chance.random() < 0.2:
        return damaged_bytes(data, chance)
    blocks = list(_BLOCK.finditer(data))
    one = chance.choice(blocks)
    der = base64.b64decode(one[2])
    der = damaged_bytes(der, chance) if chance.random() < 0.7 else damaged_words(der, chance)
    return data[: one.start(2)] + base64.encodebytes(der) + data[one.end(2) :]


def _certificates(folder: Path, chance: Random) -> Path:
    for name, data in zip(("a.pem", CERTIFICATE, KEY), _identity(), strict=True):
        path = folder / name
        path.write_bytes(data)
        path.chmod(0o600)
    path = folder / chance.choice(("a.pem", "a.pem", CERTIFICATE, KEY))
    path.write_bytes(_damaged_pem(path.read_bytes(), chance))
    return folder


def _used_certificates(folder: Path) -> None:
    """What an agent, a controller, `charkha agent certs issue` and the service do with them."""
    path = folder / "a.pem"
    check_identity(path, Role.AGENT)
    files = TlsFiles(identity=path)
    files.server_credentials()
    signer, parts = ListenAddress("127.0.0.1:1", tls=files).signer(), files.parts()
    assert signer is not None
    assert parts is not None
    with suppress(RemoteProtocolError):  # as a peer answers to it
        check_signature(b"x", signer.sign(b"x"), signer.certificate, authority=parts[2], role=Role.AGENT)
    issue(folder, "b", role=Role.AGENT, valid=timedelta(days=1))


SECRET = "s" * 40


def _token(folder: Path, chance: Random) -> bytes:
    claims = {"sub": "a", "role": "agent", "iat": 1_700_000_000, "exp": 4_000_000_000}
    if chance.random() < 0.3:
        return damaged_bytes(issue_token(SECRET, "a", role=Role.AGENT, valid=timedelta(days=1)).encode(), chance)
    parts = [{"alg": "HS256", "typ": "JWT"}, claims]
    wrong = chance.choice((0, 1, 1, 1))
    texts = [damaged_document(one, chance) if at == wrong else written(one) for at, one in enumerate(parts)]
    signed = b".".join(base64.urlsafe_b64encode(one).rstrip(b"=") for one in texts)
    code = hmac.digest(SECRET.encode(), signed, "sha256")
    return signed + b"." + base64.urlsafe_b64encode(code).rstrip(b"=")


def _held(token: bytes) -> None:
    holder = holder_of(token.decode("latin-1"), SECRET)
    assert isinstance(holder.name, str)


# --- the service ----------------------------------------------------------------------------------------------------


def _serve_folder(folder: Path, chance: Random) -> Path:
    (folder / "t").mkdir()
    document = {"charkha_service": 1, "listen": "127.0.0.1:8760", "traces": ["t"], "topologies": ["t"], "identity": "a"}
    (folder / "serve.yaml").write_bytes(damaged_document(document, chance, is_yaml=True))
    return folder


def _configured(folder: Path) -> None:
    read_configuration(ServiceFolder(folder))


BODIES: Mapping[str, Any] = {
    "/api/v1/users": {"name": "a", "role": "viewer"},
    "/api/v1/duts": {"name": "d", "about": "x", "topologies": ["leaf-spine-2x2"], "spec": {"agents": {"count": 1}}},
    "/api/v1/compose": {"trace": "transformer-8r", "topology": "leaf-spine-2x2", "profile": "fw-b", "iterations": 5},
    "/api/v1/traces": {"name": "mine", "files": {"t.0.et": "AAAA"}},
    "/api/v1/runs": {"dut": "loopback", "spec": QUICK, "name": "n", "repeat": 2},
    "/api/v1/runs/1/cancel": {},
    "/api/v1/reservations": {"dut": "loopback", "begin": "2026-01-02T03:04:05Z", "end": "2026-01-02T04:04:05Z"},
    "/otg/loopback/config": configuration(),
    "/otg/loopback/control/state": {
        "choice": "traffic",
        "traffic": {"choice": "flow_transmit", "flow_transmit": {"state": "start"}},
    },
    "/otg/loopback/monitor/metrics": {"choice": "ccl", "ccl": {}},
}
QUERIES: Mapping[str, Mapping[str, str]] = {
    "/api/v1/runs": {"dut": "loopback", "user": "a", "state": "waiting", "series": "s", "before": "7", "limit": "5"},
    "/api/v1/compare": {"baseline": "1", "other": "2", "force": "true"},
    "/api/v1/trend": {"dut": "loopback", "series": "s"},
    "/api/v1/runs/1": {},
    "/api/v1/runs/1/report": {},
    "/api/v1/duts/loopback/queue": {},
}


def _request(folder: Path, chance: Random) -> tuple[str, str, bytes]:
    """Method, path with its query, body."""
    if chance.random() < 0.7:
        path = chance.choice(sorted(BODIES))
        body = BODIES[path]
        if path == "/api/v1/runs" and chance.random() < 0.6:
            spec = damaged_document(yaml.safe_load(QUICK), chance, is_yaml=True).decode("utf-8", "surrogateescape")
            with suppress(UnicodeEncodeError):
                return "POST", path, json.dumps({**body, "spec": spec}).encode()
        return "POST", path, damaged_document(body, chance)
    path = chance.choice(sorted(QUERIES))
    query = with_other_values(dict(QUERIES[path]), chance)
    pairs = query.items() if isinstance(query, dict) else [("x", query)]
    texts = "&".join(f"{_quoted(key)}={_quoted(value)}" for key, value in pairs)
    steps = path.split("/")
    if chance.random() < 0.3:
        steps[-1] = _quoted(chance.choice((*TEXTS, *NUMBERS)))
    return "GET", "/".join(steps) + ("?" + texts if texts else ""), b""


def _quoted(value: Any) -> str:
    data = bytes(value) if isinstance(value, Raw) else str(value).encode("utf-8", "surrogatepass")
    return urllib.parse.quote_from_bytes(data[:2000], safe="")


class _Served:
    """A service in this process, started when it is first asked, and what is asked of it."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None

    def __call__(self, asked: tuple[str, str, bytes]) -> None:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._loop.run_until_complete(self._start())
        self._loop.run_until_complete(self._ask(*asked))

    async def _start(self) -> None:
        self._folder = TemporaryDirectory()
        folder = Path(self._folder.name)
        token = add_users(folder, root=ServiceRole.ADMIN)["root"]
        self._open = AsyncExitStack()
        _, self._url = await self._open.enter_async_context(in_this_process(folder))
        self._client = await self._open.enter_async_context(
            aiohttp.ClientSession(headers={"Authorization": f"Bearer {token}"})
        )
        atexit.register(self._stop)

    def _stop(self) -> None:
        self._loop.run_until_complete(self._open.aclose())
        self._loop.close()
        self._folder.cleanup()

    async def _ask(self, method: str, path: str, body: bytes) -> None:
        url = URL(self._url + path, encoded=True)
        async with self._client.request(method, url, data=body or None) as answer:
            said = await answer.text()
            assert answer.status < 500, f"{answer.status} {path}: {said}"
            if answer.status >= 400:
                raise InputError(said)


@cache
def _xml() -> bytes:
    return ring_all_reduce(3).encode()


KINDS: Sequence[Kind] = (
    Kind("trace: .et", _trace("et", _et), _played),
    Kind("trace: Chakra JSON", _chakra, _played),
    Kind("trace: master file", _file("t.parquet", _damaged_master), _played),
    Kind("trace: group file", _group_file, _played),
    *(
        Kind(f"import: {name}", _one_of(partial(_sample, name), _of_importer), _imported(importer))
        for name, (importer, _) in WRITERS.items()
    ),
    *(
        Kind(f"import: PyTorch, {name}", _one_of(partial(_pytorch, name), _json), _imported("pytorch"))
        for name in PYTORCH
    ),
    Kind("requests", _file("r.jsonl", partial(_of_importer, REQUESTS)), partial(read_requests, block_tokens=512)),
    Kind("topology", _yaml("topology", *SHIPPED), partial(load_topology, ranks=4)),
    Kind("topology: containerlab", _yaml(lambda: CLAB, name="t.clab.yml"), partial(load_topology, ranks=4)),
    Kind("topology: InfraGraph", _yaml(lambda: INFRAGRAPH, lambda: COMBINED), partial(load_topology, ranks=4)),
    Kind("run spec", _yaml("run", "run-sweeps"), _run_spec),
    Kind("algorithm (MSCCL)", _file("a.xml", lambda chance: damaged_text(_xml(), chance)), _named_algorithm),
    Kind("rules", _yaml("rules"), _rules),
    Kind("suite", _yaml("suite", shipped_suites()["smoke"].read_text), _suite),
    Kind("profile", _yaml("profile", *(path.read_text for path in PROFILES.paths.values())), load_profile),
    Kind("stored run: manifest", _stored_run(is_table=False), _used),
    Kind("stored run: tables", _stored_run(is_table=True), _used),
    Kind("stored run: streams", _open_run, _used),
    Kind("stored suite or sweep", _series, _reported),
    Kind("stored session", _session, load_session),
    Kind("capture", _file("x.pcap", lambda chance: damaged_words(chance.choice(_captures()), chance)), _audit),
    Kind("certificates", _certificates, _used_certificates),
    Kind("token", _token, _held),
    Kind("serve.yaml", _serve_folder, _configured),
    Kind("HTTP", _request, _Served()),
)
FIELDS: Sequence[Kind] = [
    Kind(f"fields: {sample}", partial(_other_fields, sample), _differs(sample)) for sample in SAMPLES
]
"""Recordings with other values, which must make a difference: a field passed over counts as an internal error."""
