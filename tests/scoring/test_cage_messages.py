"""What a supervisor and the process in a cage say to each other, with a thread of this process in the cage's place."""

import io
import json
import os
import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import pyarrow as pa
import pytest

from scoring.cage import CageBroken, CageDied, CageLimits, CageOutOfMemory, CageTimeout, FileReader
from scoring.cage import pipe as pipes
from scoring.cage.limits import CageError
from scoring.cage.models import CagedModel, _translate_errors
from scoring.cage.pipe import HEAD, LENGTH, Closed, Pipe, read_batches
from scoring.cage.protections import Protection, as_json, from_json, missing_protections
from scoring.cage.supervisor import Cage, WorkRefused, clean_environment
from scoring.cage.work import serve
from scoring.contributed import ContributionRefused, Flaw, Limits, Matched
from scoring.contributed.tools import read_log, results_of
from scoring.language_models import FailedSelfTest, ModelRefused
from scoring.likelihood import NotApplicable
from tests.scoring.contributed.files import json_lines, read, read_scores, refusal, valid_rows
from tests.scoring.contributed.prompts import PROMPTS, K
from tests.scoring.contributed.test_logs import LOGS

SCHEMA = pa.schema([("number", pa.int32())])
TABLE = pa.table({"number": [1, 2, 3]}, schema=SCHEMA)
LIMITS = CageLimits(seconds=60, idle_seconds=60)
PROTECTION = Protection("network", "No network", True, "none")


@contextmanager
def caged(
    work: Callable[[socket.socket, socket.socket], object],
    limits: CageLimits = LIMITS,
    check: Callable[[], None] = lambda: None,
) -> Iterator[Cage]:
    """A cage whose process is a thread that does this work, with its ends of the two sockets."""
    ours, theirs = socket.socketpair()
    watch, warden = socket.socketpair()
    thread = Thread(target=work, args=(theirs, warden))
    thread.start()
    cage = Cage(ours, watch, limits, check)
    try:
        yield cage
    finally:
        cage.close()
        thread.join()
        for end in (theirs, warden):
            end.close()


def answering(*messages: dict[str, Any], table: pa.Table | None = None) -> Callable[..., None]:
    """Work that waits for a request, sends these messages, the last with a table, and hangs up."""

    def work(theirs: socket.socket, warden: socket.socket) -> None:
        end = Pipe(theirs)
        end.receive()
        for message in messages:
            end.send(message, table if message is messages[-1] else None)
        warden.close()
        end.close()

    return work


# Files


@pytest.fixture
def reader(tmp_path) -> Iterator[Callable[[bytes], FileReader]]:
    """A reader of a file with this content, and the counts of bytes that it reported."""

    def work(theirs: socket.socket, _warden: socket.socket) -> None:
        serve(Pipe(theirs))

    with caged(work) as cage:

        def make(content: bytes, progress: Callable[[int], None] = lambda _bytes: None) -> FileReader:
            (tmp_path / "upload").write_bytes(content)
            return FileReader(cage, tmp_path / "upload", progress)

        yield make


def test_files_are_read_in_a_cage_as_outside_of_one(reader):
    data = json_lines(valid_rows())
    counts: list[int] = []
    table = reader(data, counts.append).read_generations("outputs.jsonl", PROMPTS, K, Limits())
    assert table == read(data)
    assert counts[0] == len(data)
    scores = json_lines([{"id": prompt.id, "token_log_likelihoods": [-1.5]} for prompt in PROMPTS])
    assert reader(scores).read_likelihoods("outputs.jsonl", PROMPTS, Limits()) == read_scores(scores)


def test_a_refusal_comes_out_of_a_cage_whole_and_the_next_file_is_read(reader):
    data = json_lines([{**row, "index": -1} for row in valid_rows()])
    for limits in (Limits(), Limits(problems=3)):
        with pytest.raises(ContributionRefused) as refused:
            reader(data).read_generations("outputs.jsonl", PROMPTS, K, limits)
        assert refused.value.report == refusal(data, limits=limits)
    with pytest.raises(ContributionRefused) as refused:
        reader(data).read_likelihoods("outputs.jsonl", PROMPTS, Limits(rows=1))
    assert refused.value.report == refusal(data, limits=Limits(rows=1), reader=read_scores)
    assert reader(json_lines(valid_rows())).read_generations("o.jsonl", PROMPTS, K, Limits()).num_rows == 15
    with pytest.raises(WorkRefused) as other:
        reader(b"").read_generations("outputs.jsonl", PROMPTS, "many", Limits())
    assert (other.value.kind, other.value.about) == ("TypeError", {})


def test_logs_of_tools_are_read_in_a_cage_with_where_they_come_from(reader):
    content = (LOGS / "scenario_state.json").read_bytes()
    output = reader(content).read_log("scenario_state.json", PROMPTS, K, Limits())
    expected = read_log(io.BytesIO(content), "scenario_state.json", PROMPTS, K)
    assert output.table == expected.table
    assert output.matched == expected.matched
    assert output.provenance.decoding.stop == ("",) * len(expected.provenance.decoding.stop)
    assert output.provenance.tool == expected.provenance.tool
    with pytest.raises(ContributionRefused) as refused:
        reader(content).read_log("scenario_state.json", PROMPTS[1:], K, Limits())
    assert isinstance(refused.value.report.matched, Matched)
    left = reader(content).read_log("scenario_state.json", PROMPTS[1:], K, Limits(), leave_out_others=True)
    assert (left.table.num_rows, left.matched.others) == (4 * K, 1)


def test_results_of_a_run_are_read_in_a_cage(reader):
    content = json.dumps({"config": {"model": "a"}, "results": {"task": {"alias": "x"}}, "versions": {}}).encode()
    assert reader(content).read_results() == results_of(io.BytesIO(content))
    with pytest.raises(ContributionRefused) as refused:
        reader(b"[]").read_results()
    assert refused.value.report.counts == {Flaw.NOT_JSON: 1}


@pytest.mark.parametrize(
    "about",
    [{}, {"report": None}, {"report": {"rows": 1}}, {"report": {"counts": {"x": 1}, "problems": [], "matched": None}}],
    ids=str,
)
def test_a_report_that_is_none_is_broken(about, tmp_path):
    refused = {"refused": {"kind": "ContributionRefused", "message": "no", "about": about}}
    with caged(answering(refused)) as cage, pytest.raises(CageBroken, match="a report that says nothing"):
        FileReader(cage, tmp_path, lambda _bytes: None).read_results()


# Messages


def test_an_answer_comes_after_stages_and_progress():
    messages = [{"stage": "x" * 120}, {"progress": 0}, {"progress": 7}, {"answer": {"a": 1}}]
    counts: list[int] = []
    with caged(answering(*messages, table=TABLE)) as cage:
        answer = cage.ask("anything", {}, schema=SCHEMA, progress=counts.append)
        assert (answer.values, answer.rows, counts) == ({"a": 1}, TABLE, [0, 7])
        assert cage.stage == "between two requests"
    with caged(answering({"stage": "y" * 120}, {"refused": {"kind": "k" * 100, "message": "m" * 3000}})) as cage:
        with pytest.raises(WorkRefused, match=r"^m{3000}$|^m{2000}$") as refused:
            cage.ask("anything", {})
        assert (cage.stage, refused.value.kind, refused.value.message) == ("y" * 100, "k" * 80, "m" * 2000)
        assert refused.value.about == {}


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ({"other": 1}, "a message of no known kind"),
        ({"answer": 1}, "a message of no known kind"),
        ({"progress": -1}, "progress that is no count"),
        ({"progress": "1"}, "progress that is no count"),
        ({"progress": 2**53}, "progress that is no count"),
        ({"refused": {"kind": "a"}}, "a refusal that says nothing"),
        ({"refused": {"message": "a"}}, "a refusal that says nothing"),
        ({"refused": 7}, "a refusal that says nothing"),
        ({"refused": {"kind": "a", "message": "b", "about": 7}}, "a refusal that says nothing"),
    ],
    ids=str,
)
def test_a_message_that_is_none_is_broken(message, words):
    with caged(answering(message)) as cage, pytest.raises(CageBroken, match=words):
        cage.ask("anything", {})


def test_an_answer_without_its_table_is_broken():
    with caged(answering({"answer": {}})) as cage, pytest.raises(CageBroken, match="an answer without a table"):
        cage.ask("anything", {}, schema=SCHEMA).rows  # noqa: B018


def test_a_cage_begins_with_its_protections():
    def work(theirs: socket.socket, _warden: socket.socket) -> None:
        Pipe(theirs).send({"protections": as_json([PROTECTION])})
        Pipe(theirs).send({"protections": 7})

    with caged(work) as cage:
        cage.begin()
        assert cage.protections == [PROTECTION]
        with pytest.raises(CageBroken, match="it does not say what protects the host"):
            cage.begin()


def test_protections_are_read_from_what_a_cage_says_and_shortened():
    rows = [{"name": "network", "title": "Anything", "holds": holds, "detail": "d" * 400} for holds in (1, 0, None)]
    read_protections = from_json(rows)
    assert [one.holds for one in read_protections] == [True, False, None]
    assert {(one.title, one.detail) for one in read_protections} == {("No network", "d" * 300)}
    assert missing_protections(read_protections) == [read_protections[1]]
    for name in ("name", "holds", "detail"):
        with pytest.raises(KeyError):
            from_json([{key: value for key, value in rows[0].items() if key != name}])


@pytest.mark.parametrize(
    ("last", "words", "number"),
    [
        ({"signal": 11}, r"its process ended \(signal 11, crash\)", 11),
        ({"signal": 24}, r"its process ended \(signal 24, out of processor time\)", 24),
        ({"signal": 10}, r"its process ended \(signal 10, ended\)", 10),
        ({"status": 3}, r"its process ended \(status 3\)", 0),
        (None, "its process is gone", 0),
    ],
    ids=str,
)
def test_how_a_process_ended_is_what_its_warden_says(last, words, number):
    def work(theirs: socket.socket, warden: socket.socket) -> None:
        Pipe(theirs).receive()
        lines = [{"process": os.getpid()}, *([last] if last else [])]
        warden.sendall("".join(json.dumps(line) + "\n" for line in lines).encode())
        warden.shutdown(socket.SHUT_RDWR)
        theirs.shutdown(socket.SHUT_RDWR)

    with caged(work) as cage:
        with pytest.raises(CageDied, match=words) as died:
            cage.ask("anything", {})
        assert (died.value.signal, died.value.stage) == (number, "its start")


def waiting(theirs: socket.socket, warden: socket.socket) -> None:
    """Work that never answers, by this very process."""
    warden.sendall(json.dumps({"process": os.getpid()}).encode() + b"\n")
    with open(theirs.fileno(), "rb", closefd=False) as requests:
        requests.read()


@pytest.mark.parametrize(
    ("limits", "error", "words"),
    [
        (CageLimits(seconds=0.1), CageTimeout, "it took longer than the 0.1 s that it may take"),
        (CageLimits(idle_seconds=0.1), CageTimeout, "it showed no progress for 0.1 s"),
        (CageLimits(memory=2**20), CageOutOfMemory, r"it took \d+\.\d GB of memory, and may take 0\.0"),
    ],
    ids=["time", "idle", "memory"],
)
def test_work_beyond_its_limits_ends(limits, error, words):
    with caged(waiting, limits) as cage, pytest.raises(error, match=words) as ended:
        cage.ask("anything", {})
    assert ended.value.stage == "its start"


def test_whoever_asked_may_end_the_work_and_other_work_goes_on_with_its_own_limits():
    def stop() -> None:
        raise KeyError("enough")

    with caged(waiting, CageLimits(seconds=0.1), check=stop) as cage:
        with pytest.raises(KeyError, match="enough"):
            cage.ask("anything", {})
        time.sleep(0.1)
        cage.resume(CageLimits(seconds=0.5), lambda: None)
        began = time.monotonic()
        with pytest.raises(CageTimeout, match=r"0\.5 s"):
            cage.ask("anything", {})
        assert time.monotonic() - began > 0.4


# The pipe


@pytest.fixture
def ends() -> Iterator[tuple[Pipe, socket.socket]]:
    """A pipe, and the bare socket at its other end."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield Pipe(ours), theirs


def stream(table: pa.Table, **options: Any) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as written:
        written.write_table(table)
    return sink.getvalue().to_pybytes()


def test_messages_and_tables_of_any_size_come_through(ends, monkeypatch):
    monkeypatch.setattr(pipes, "FRAME", 8)
    pipe, theirs = ends
    for table in (TABLE, TABLE.slice(0, 0), None):
        Pipe(theirs).send({"a": "é"}, table)
        assert pipe.receive(None if table is None else SCHEMA, 10**6) == ({"a": "é"}, table)
    with pytest.raises(ValueError, match="a message of 1,048,585 bytes: at most 1,048,576 are read"):
        pipe.send({"a": "x" * 2**20})


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (HEAD.pack(2**20 + 1, 0), "a message of 1,048,577 bytes and 0 tables: that is no answer"),
        (HEAD.pack(2, 2**12 + 1) + b"{}", "a message of 2 bytes and 4,097 tables: that is no answer"),
        (HEAD.pack(2, 0) + b"{]", "a message that is not JSON: JSONDecodeError"),
        (HEAD.pack(2, 0) + b"[]", "a message that is no JSON object"),
        (HEAD.pack(2, 1) + b"{}" + LENGTH.pack(2001), "a table that is larger than it may be"),
        (HEAD.pack(2, 1) + b"{}" + LENGTH.pack(5) + b"Arrow", "a table that cannot be read"),
    ],
    ids=str,
)
def test_what_is_no_message_is_broken(ends, data, words):
    pipe, theirs = ends
    theirs.sendall(data)
    with pytest.raises(CageBroken, match=words):
        pipe.receive(SCHEMA, 2000)


def test_a_table_where_none_was_asked_for_is_broken_and_so_are_tables_that_are_too_large_together(ends):
    pipe, theirs = ends
    frame = stream(TABLE)
    theirs.sendall(HEAD.pack(2, 2) + b"{}" + (LENGTH.pack(len(frame)) + frame) * 2)
    assert pipe.receive(SCHEMA, 2 * len(frame))[1] == pa.concat_tables([TABLE, TABLE])
    theirs.sendall(HEAD.pack(2, 2) + b"{}" + (LENGTH.pack(len(frame)) + frame) * 2)
    with pytest.raises(CageBroken, match="larger than it may be"):
        pipe.receive(SCHEMA, 2 * len(frame) - 1)


def test_a_table_alone_is_no_answer_to_who_asked_for_none(ends):
    pipe, theirs = ends
    theirs.sendall(HEAD.pack(2, 1) + b"{}")
    with pytest.raises(CageBroken, match="a message of 2 bytes and 1 tables"):
        pipe.receive()


def test_who_hangs_up_is_told_apart_from_who_says_nothing(ends):
    pipe, theirs = ends
    theirs.sendall(HEAD.pack(2, 0) + b"{")
    theirs.close()
    with pytest.raises(Closed):
        pipe.receive()
    with pytest.raises(Closed):
        pipe.send({"a": "x" * 10**6})


@pytest.mark.parametrize("compression", [None, "zstd", "lz4"])
def test_tables_are_read_uncompressed_alone(compression):
    content = stream(TABLE, compression=compression)
    if compression is None:
        assert pa.Table.from_batches(read_batches(content, SCHEMA)) == TABLE
    else:
        with pytest.raises(CageBroken, match="a table with compressed buffers"):
            read_batches(content, SCHEMA)


def test_tables_of_another_kind_or_with_values_that_are_none_are_broken():
    with pytest.raises(CageBroken, match="a table of another kind than was asked for"):
        read_batches(stream(TABLE.rename_columns(["other"])), SCHEMA)
    content = stream(pa.table({"text": ["a", "b"]}))
    damaged = content.replace(struct.pack("<iii", 0, 1, 2), struct.pack("<iii", 0, 9, 2))
    assert damaged != content
    with pytest.raises(CageBroken, match="a table that cannot be read"):
        read_batches(damaged, pa.schema([("text", pa.string())]))


# What it was, from outside


@pytest.mark.parametrize(
    ("error", "outside", "words"),
    [
        (WorkRefused("ModelRefused", "no", {}), ModelRefused, "^no$"),
        (WorkRefused("FailedSelfTest", "no", {}), FailedSelfTest, "^no$"),
        (WorkRefused("NotApplicable", "no", {}), NotApplicable, "^no$"),
        (WorkRefused("OtherError", "no", {}), WorkRefused, "^no$"),
        (WorkRefused("MemoryError", "no", {}), CageOutOfMemory, "it asked for more memory than it may take"),
        (WorkRefused("OutOfMemoryError", "CUDA out of memory", {}), MemoryError, "CUDA out of memory"),
        (WorkRefused("PanicException", "index", {}), ModelRefused, r"^tuned makes a library panic \(index\): save its"),
        (
            CageDied("gone", "loading the model"),
            ModelRefused,
            "^tuned ended the process that was loading the model: gone",
        ),
        (CageTimeout("slow", "rendering the chat template"), ModelRefused, "was rendering the chat template: slow"),
        (CageOutOfMemory("full", "reading the configuration"), ModelRefused, "was reading the configuration: full"),
        (CageTimeout("slow", "computing likelihoods"), CageTimeout, "^slow$"),
        (CageBroken("nothing", "loading the model"), CageBroken, "^nothing$"),
    ],
    ids=lambda value: getattr(value, "kind", getattr(value, "stage", "")),
)
def test_what_goes_wrong_with_a_model_in_a_cage_is_the_error_that_it_is_outside(error, outside, words):
    with pytest.raises(outside, match=words) as raised, _translate_errors("tuned"):
        raise error
    assert type(raised.value) is outside


ARCHITECTURE = {"kind": "causal", "model_type": "gpt2", "class_name": "GPT2LMHeadModel", "family": "GPT-2"}
ARCHITECTURE |= {"parameters": 0, "layers": 1, "heads": 1, "hidden_size": 8, "context": 8, "vocabulary": 9, "stored": 0}


def test_a_model_is_what_its_cage_says_within_bounds(tmp_path):
    (tmp_path / "model.safetensors").write_bytes(b"")
    (tmp_path / "more").mkdir()

    def model(**changes: Any) -> CagedModel:
        values = {"architecture": ARCHITECTURE, "files": ["model.safetensors"], "device": "c" * 50} | changes
        return CagedModel(None, tmp_path, "tuned", values)  # type: ignore[arg-type]

    assert (model().files, model().device, model().architecture.family) == (("model.safetensors",), "c" * 40, "GPT-2")
    assert (
        model(architecture=ARCHITECTURE | {"stored": 2**53 - 1, "family": "x" * 199}).architecture.stored == 2**53 - 1
    )
    for row in (
        None,
        ARCHITECTURE | {"more": 1},
        ARCHITECTURE | {"stored": 2**53},
        ARCHITECTURE | {"layers": -1},
        ARCHITECTURE | {"layers": True},
        ARCHITECTURE | {"family": 7},
        ARCHITECTURE | {"family": "x" * 200},
    ):
        with pytest.raises(CageBroken, match="an architecture"):
            model(architecture=row)
    for names in (None, "model.safetensors", ["more"], [7], ["../secret"]):
        with pytest.raises(CageBroken, match="names of what there is not"):
            model(files=names)


def test_the_environment_of_cages_holds_what_is_on_the_list_and_nothing_else():
    variables = clean_environment({"PATH": "/bin", "LANG": "C", "HF_TOKEN": "secret", "SECRET_KEY": "secret"})
    assert variables["PATH"] == "/bin"
    assert "secret" not in variables.values()
    assert (Path(variables["PYTHONPATH"]) / "scoring" / "cage" / "zygote.py").is_file()
    assert variables["PLUMBLINE_CAGE_OF"] == ("root" if os.getuid() == 0 else "")


def test_an_error_of_a_cage_says_what_it_was_at():
    assert (str(CageError("gone")), CageError("gone").stage, CageDied("gone", "reading").stage) == (
        "gone",
        "",
        "reading",
    )
    assert (CageDied("gone").stage, CageDied("gone").signal) == ("", 0)
