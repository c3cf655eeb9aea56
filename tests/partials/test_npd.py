"""Files of partials: what goes in comes out, what is damaged says so, and how they are joined does not matter."""

from __future__ import annotations

import dataclasses
import io
import random
import shutil
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npudiag.analyze import Options, analyze
from npudiag.discover.source import Source
from npudiag.engine.load import RulePack, load_pack, shipped_pack
from npudiag.errors import SourceError
from npudiag.extract import extract
from npudiag.host.resources import Resources
from npudiag.ingest import ingest
from npudiag.parsers.base import Budget, Partial
from npudiag.parsers.scan import Literals
from npudiag.partials import MAGIC, carry, codec, npd
from npudiag.result import Problem, Result

SAMPLES = Path(__file__).parents[2] / "sample_logs"
JOBS = ("hccl-notify-timeout-dead-peer", "aicore-exception-one-of-eight", "profile-slow-rank", "loss-oscillation")
WANTED = Literals(("ERROR", "Traceback (most recent call last)"), (False, False))


@pytest.fixture(scope="module")
def pack() -> RulePack:
    return load_pack([shipped_pack()])


def read(path: Path | str) -> list[Partial]:
    return ingest([str(path)], WANTED, lambda: Resources(1, 1 << 28)).partials


def plain(value: object) -> object:
    """Return columns and arrays as text, which can be compared."""
    if isinstance(value, dict):
        return {key: table.state() if hasattr(table, "state") else repr(table) for key, table in value.items()}
    return value


@pytest.mark.parametrize("job", JOBS)
def test_a_partial_survives_the_journey(job: str) -> None:
    for partial in read(SAMPLES / job):
        again = codec.decode(codec.encode(partial))
        for field in dataclasses.fields(Partial):
            assert plain(getattr(again, field.name)) == plain(getattr(partial, field.name)), field.name


def written(partials: list[Partial], tmp_path: Path, problems: tuple[Problem, ...] = ()) -> Path:
    target = tmp_path / "node.npd"
    npd.write(str(target), partials, WANTED, problems, "2026-01-01T00:00:00+00:00")
    return target


def test_a_file_that_breaks_off_gives_what_it_has(tmp_path: Path) -> None:
    data = written(read(SAMPLES / JOBS[0]), tmp_path).read_bytes()
    whole = list(npd.Reader(io.BytesIO(data[100:]), data[:100]))
    got: list[Partial] = []
    with pytest.raises(SourceError, match="breaks off"):
        for partial in npd.Reader(io.BytesIO(data[100 : len(data) * 3 // 4]), data[:100]):
            got.append(partial)
    assert len(got) < len(whole)
    (tmp_path / "half.npd").write_bytes(data[: len(data) * 3 // 4])
    found = ingest([str(tmp_path / "half.npd")], WANTED, lambda: Resources(1, 1 << 28))
    assert 0 < len(found.partials) < len(whole)
    assert [problem.reason for problem in found.problems] == ["truncated"]


@settings(max_examples=60, deadline=None)
@given(at=st.floats(0, 1), value=st.integers(1, 255), cut=st.booleans())
def test_no_damage_goes_unseen_or_breaks_the_reader(at: float, value: int, cut: bool) -> None:
    data = bytearray(DAMAGED)
    place = len(MAGIC) + int(at * (len(data) - len(MAGIC) - 1))
    if cut:
        del data[place:]
    else:
        data[place] ^= value
    with pytest.raises(SourceError):
        list(npd.Reader(io.BytesIO(bytes(data[len(MAGIC) :])), bytes(data[: len(MAGIC)])))


@given(st.binary(max_size=400))
def test_bytes_that_are_no_partial_are_refused(data: bytes) -> None:
    with pytest.raises(ValueError):
        codec.decode(data)


def test_another_release_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = written([], tmp_path).read_bytes()
    monkeypatch.setattr(codec, "layout", lambda: "other")
    with pytest.raises(SourceError, match="written by npudiag") as caught:
        npd.Reader(io.BytesIO(b""), data)
    assert caught.value.reason == "unsupported"


def test_a_failed_write_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(partial: Partial) -> bytes:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(codec, "encode", broken)
    with pytest.raises(OSError, match="No space"):
        written([Partial(Source("a", None, None, None))], tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_strings_that_were_not_looked_for_are_told(tmp_path: Path) -> None:
    target = written(read(SAMPLES / JOBS[0]), tmp_path)
    other = Literals(("never looked for", "ERROR"), (False, False))
    found = ingest([str(target)], other, lambda: Resources(1, 1 << 28))
    assert [problem.reason for problem in found.problems] == ["other-rules"]
    hits = {hit for partial in found.partials for row in partial.rows for hit in row.hits}
    assert hits == {1}, "the strings of both are told apart by their text"


def test_no_more_records_are_taken_than_there_is_room_for(tmp_path: Path) -> None:
    partials = read(SAMPLES / JOBS[0])
    target = written(partials, tmp_path)
    data = target.read_bytes()
    source = Source("node.npd", None, None, None)
    few = list(carry.taken(source, io.BytesIO(data[50:]), data[:50], WANTED, Budget(carried=len(partials) * 8), print))
    assert max(len(partial.rows) for partial in few) == 8
    for less, whole in zip(few, partials, strict=True):
        assert less.folded - whole.folded == len(whole.rows) - len(less.rows)
        assert sum(bool(row.hits) for row in less.rows) == min(8, sum(bool(row.hits) for row in whole.rows))


# Whole analyses ---------------------------------------------------------------------------------------------------


def story(result: Result) -> list[tuple[object, ...]]:
    """Return what an analysis says."""
    return [
        (
            finding.code,
            finding.role,
            finding.title,
            tuple(finding.scope.ranks),
            tuple(finding.scope.nodes),
            tuple(finding.scope.devices),
            tuple((proof.path, proof.line, proof.text) for proof in finding.evidence),
        )
        for finding in result.findings
    ]


def split(job: Path, into: Path, pieces: int, seed: int) -> list[Path]:
    """Deal the files of a job out to several folders; paths inside stay as they are."""
    chance = random.Random(seed)
    for path in sorted(job.rglob("*")):
        if path.is_file():
            target = into / f"piece{chance.randrange(pieces)}" / path.relative_to(job.parent)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, target)
    return sorted(into.iterdir())


@pytest.mark.parametrize("job", [*JOBS[:3], "rdma-cqe-link-down"])
def test_pieces_joined_in_any_order_tell_the_same(job: str, pack: RulePack, tmp_path: Path) -> None:
    logs = SAMPLES / job / "logs"
    whole, _ = analyze([str(logs)], pack)
    files = []
    for piece in split(logs, tmp_path / "pieces", 3, seed=7):
        target = tmp_path / f"{piece.name}.npd"
        extract([str(piece / "logs")], str(target), pack)
        files.append(str(target))
    expected = story(whole)
    assert expected
    for order in (files, files[::-1], [files[1], files[2], files[0], files[1]]):
        assert story(analyze(order, pack)[0]) == expected
    # Joined in steps, and with one of them twice.
    extract(files[:2], str(tmp_path / "two.npd"), pack)
    extract([files[2], str(tmp_path / "two.npd"), files[0]], str(tmp_path / "all.npd"), pack)
    assert story(analyze([str(tmp_path / "all.npd")], pack)[0]) == expected


def test_a_later_state_of_a_log_replaces_the_earlier_one(pack: RulePack, tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text("torch_npu starts\n")
    extract([str(log)], str(tmp_path / "early.npd"), pack)
    log.write_text("torch_npu starts\nRuntimeError: something of torch_npu is wrong\n")
    extract([str(log)], str(tmp_path / "late.npd"), pack)
    for order in (("early", "late"), ("late", "early")):
        result, store = analyze([str(tmp_path / f"{name}.npd") for name in order], pack)
        assert [row["lines"] for row in store.rows("files")] == [2]
        assert result.findings


def test_nodes_can_be_named(pack: RulePack, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name / "slog").mkdir(parents=True)
        (tmp_path / name / "slog" / "train.log").write_text("RuntimeError: something of torch_npu is wrong\n")
    options = Options(nodes=(("first", str(tmp_path / "a" / "slog")), ("second", str(tmp_path / "b" / "slog"))))
    _, store = analyze([], pack, options)
    assert sorted(row["node"] for row in store.rows("files")) == ["first", "second"]
    extract([str(tmp_path / "a" / "slog")], str(tmp_path / "n17.npd"), pack)
    result, store = analyze([str(tmp_path / "n17.npd")], pack)
    assert [row["node"] for row in store.rows("files")] == ["n17"]
    assert result.facts["carried_by"] == {"n17": 1}


def test_logs_of_the_same_path_are_told_apart_by_their_carrier(pack: RulePack, tmp_path: Path) -> None:
    for name in ("n1", "n2"):
        (tmp_path / name / "slog").mkdir(parents=True)
        (tmp_path / name / "slog" / "train.log").write_text("RuntimeError: something of torch_npu is wrong\n")
        extract([str(tmp_path / name / "slog")], str(tmp_path / f"{name}.npd"), pack)
    one, _ = analyze([str(tmp_path / "n1.npd")], pack)
    assert [told.path for told in one.inputs] == ["slog/train.log"]
    extract([str(tmp_path / "n1.npd"), str(tmp_path / "n2.npd")], str(tmp_path / "both.npd"), pack)
    for inputs in ([tmp_path / "n1.npd", tmp_path / "n2.npd"], [tmp_path / "both.npd"]):
        both, _ = analyze([str(path) for path in inputs], pack)
        assert [told.path for told in both.inputs] == ["n1/slog/train.log", "n2/slog/train.log"]


DAMAGED = b""


@pytest.fixture(scope="module", autouse=True)
def _damaged(tmp_path_factory: pytest.TempPathFactory) -> None:
    global DAMAGED
    DAMAGED = written(read(SAMPLES / JOBS[3]), tmp_path_factory.mktemp("npd")).read_bytes()
