"""``npudiag extract`` on the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from npudiag.__main__ import main

SAMPLE = Path(__file__).parents[2] / "sample_logs" / "hccl-notify-timeout-dead-peer" / "logs"


def test_a_node_is_shrunk_and_analysed_elsewhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "node-a.npd"
    assert main(["extract", str(SAMPLE), "-o", str(target)]) == 0
    told = capsys.readouterr()
    assert told.out.startswith(f"{target}: 23 logs, ") and told.err == ""
    assert main(["analyze", str(target), "--json", str(tmp_path / "result.json"), "-q"]) == 0
    assert "SIG124" in capsys.readouterr().out
    document = json.loads((tmp_path / "result.json").read_text())
    assert document["findings"][0]["scope"]["ranks"] == [5]
    assert document["facts"]["carried_by"] == {"node-a": 23}
    assert main(["gate", str(target)]) == 1


def test_problems_are_told_and_counted_when_strict(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "train.log").write_text("torch_npu starts\n")
    (tmp_path / "logs" / "broken.log.gz").write_bytes(b"\x1f\x8b\x08\0broken")
    arguments = ["extract", str(tmp_path / "logs"), "-o", str(tmp_path / "n.npd")]
    assert main(arguments) == 0
    assert "broken.log.gz" in capsys.readouterr().err
    assert main([*arguments, "--strict"]) == 4
    capsys.readouterr()
    # Whoever analyses the file learns of it too.
    assert main(["analyze", str(tmp_path / "n.npd"), "--strict"]) == 4
    assert "broken.log.gz" in capsys.readouterr().out


def test_nothing_recognised(tmp_path: Path) -> None:
    (tmp_path / "image.bin").write_bytes(bytes(range(256)) * 64)
    assert main(["extract", str(tmp_path / "image.bin"), "-o", str(tmp_path / "n.npd")]) == 3


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["-o", "n.npd"], "nothing to shrink"),
        (["nothing-here", "-o", "n.npd"], "no such file"),
        ([str(SAMPLE), "-o", "no-folder/n.npd"], "no folder"),
        ([str(SAMPLE), "-o", "n.npd", "--node", "a"], "NAME=PATH"),
        ([str(SAMPLE), "-o", "n.npd", "--node", f"a={SAMPLE}", "--node", f"b={SAMPLE}"], "two nodes"),
        ([str(SAMPLE)], "--output"),
    ],
)
def test_wrong_usage(
    arguments: list[str], word: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["extract", *arguments]) == 2
    assert word in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from npudiag.partials import codec

    def full(*_: object) -> bytes:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(codec, "encode", full)
    assert main(["extract", str(SAMPLE), "-o", str(tmp_path / "n.npd")]) == 2
    assert "No space left" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_file_is_incomplete_and_not_green(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "n.npd"
    assert main(["extract", str(SAMPLE), "-o", str(target)]) == 0
    target.write_bytes(target.read_bytes()[:-2000])
    assert main(["analyze", str(target), "--strict"]) == 4
    assert "breaks off" in capsys.readouterr().out
    target.write_bytes(target.read_bytes()[:60])
    assert main(["gate", str(target)]) in (3, 4)


@pytest.mark.parametrize("place", [SAMPLE, SAMPLE / "*"], ids=["folder", "pattern"])
def test_nodes_are_named_on_the_command_line(place: Path, tmp_path: Path) -> None:
    result = tmp_path / "r.json"
    assert main(["analyze", "--node", f"alpha={place}", "--json", str(result), "-q"]) == 0
    document = json.loads(result.read_text())
    assert document["findings"][0]["scope"]["nodes"] == ["alpha"]


def test_two_paths_or_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["analyze"]) == 2
    assert "nothing to look at" in capsys.readouterr().err


def test_an_extract_that_is_interrupted_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from npudiag import ingest

    work, calls = ingest.work, []

    def stopped(*given: Any) -> Any:
        calls.append(given)
        if len(calls) > 1:
            raise KeyboardInterrupt
        return work(*given)

    monkeypatch.setattr(ingest, "work", stopped)
    monkeypatch.setattr(ingest, "_BATCH_FILES", 1)
    target = tmp_path / "n.npd"
    assert main(["extract", str(SAMPLE), "-o", str(target)]) == 130
    assert "interrupted" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["n.npd"], "what was read is kept"
