"""Exceptions that no rule knows: how they are read, what kind they are, and when they are passed over."""

from __future__ import annotations

from functools import cache

import pytest

from npudiag.analyze import analyze_texts
from npudiag.detectors import exception_kinds, raised
from npudiag.engine.load import RulePack, load_pack
from npudiag.result import Finding
from npudiag.tables.records import LogRecord

STEPS = "".join(
    f"{{'loss': 1.{9 - number}, 'grad_norm': 0.9, 'learning_rate': 1e-05, 'epoch': 0.0{number}}}\n"
    for number in range(1, 6)
)
SITE = "/usr/lib/python3.11/site-packages"


@cache
def pack() -> RulePack:
    return load_pack()


def analysed(text: str) -> list[Finding]:
    return analyze_texts({"train.log": text}, pack()).findings


def record(text: str) -> LogRecord:
    return LogRecord(file="train.log", line=1, text=text, kind="console")


def traceback(path: str, function: str, code: str, end: str) -> str:
    return (
        "Traceback (most recent call last):\n"
        '  File "/workspace/train.py", line 8, in <module>\n    main()\n'
        f'  File "{SITE}/{path}", line 31, in {function}\n    {code}\n{end}\n'
    )


@pytest.mark.parametrize(
    ("path", "function", "code", "end", "category"),
    [
        # By place.
        ("acme/data/packer.py", "pack", "raise RuntimeError(x)", "RuntimeError: nothing is left", "data-pipeline"),
        ("acme/checkpointing/shards.py", "join", "assert a == b", "AssertionError", "checkpoint"),
        ("acme/core.py", "load_widget_state_dict", "x = d['a']", "KeyError: 'a'", "checkpoint"),
        ("acme/graphs/npugraph_pool.py", "replay", "pool[8]", "LookupError: no pool", "graph-capture"),
        ("acme/registry.py", "build", "raise KeyError(x)", "KeyError: 'widget'", "config"),
        ("acme/modeling_acme.py", "forward", "raise ValueError(x)", "ValueError: odd number of widgets", "operator"),
        ("bitsandbytes/functional.py", "go", "lib.cgo(a)", "AttributeError: 'NoneType' has no cgo", "environment"),
        # Frames that everything passes through are left out.
        ("torch/nn/modules/module.py", "_call_impl", "f(x)", "RuntimeError: widget went away", None),
        # By words, whatever the place.
        ("acme/data/x.py", "a", "raise E", "RuntimeError: acme mode needs torch>=2.4", "version-mismatch"),
        ("acme/data/x.py", "a", "raise E", "ImportError: please upgrade acme", "version-mismatch"),
        ("acme/data/x.py", "a", "raise E", "RuntimeError: widgetlib is not installed", "environment"),
        ("acme/data/x.py", "a", "open(p)", "OSError: [Errno 116] Stale file handle: '/mnt/a'", "host-fault"),
        ("acme/x.py", "a", "np.empty(n)", "acme.WidgetError: Unable to allocate 5.2 GiB for a table", "out-of-memory"),
        ("acme/x.py", "a", "raise E", "RuntimeError: found inf in the widgets", "numerics"),
        # By class.
        ("acme/x.py", "a", "s.get(u)", "requests.exceptions.ReadTimeout: hub", "environment"),
        ("acme/x.py", "a", "load(f)", "yaml.scanner.ScannerError: mapping values", "config"),
        (
            "subprocess.py",
            "_execute_child",
            "raise E",
            "FileNotFoundError: [Errno 2] No such file: 'ds'",
            "environment",
        ),
        # By what was refused.
        ("acme/x.py", "a", "raise E", "ValueError: learning rate has to stay below 0.1", "config"),
        ("acme/x.py", "a", "assert args.tp > 1", "AssertionError", "config"),
        ("acme/x.py", "a", "assert a.shape == b.shape", "AssertionError", "operator"),
        ("acme/x.py", "a", "assert thing is not None", "AssertionError", None),
        ("acme/x.py", "a", "n = int(s)", "ValueError: invalid literal for int() with base 10: 'a'", None),
        ("acme/x.py", "a", "f()", "RuntimeError: widget went away", None),
        ("acme/x.py", "a", "f()", "NameError: name 'flash_attn_func' is not defined", "environment"),
        ("acme/x.py", "a", "f()", "NameError: name 'widget' is not defined", None),
    ],
)
def test_words_class_and_place_give_the_kind(
    path: str, function: str, code: str, end: str, category: str | None
) -> None:
    (found,) = raised.read(record(traceback(path, function, code, end)))
    kind = exception_kinds.judge(found)
    assert (kind.category if kind else None) == category


def test_the_last_of_a_chain_is_told_and_ahead_of_it_what_caused_it() -> None:
    handled = traceback("acme/a.py", "a", "a()", "KeyError: 'a'")
    cause = traceback("acme/b.py", "b", "b()", "OSError: b")
    last = traceback("acme/c.py", "c", "raise E from e", "RuntimeError: c")
    text = (
        f"{handled}During handling of the above exception, another exception occurred:\n{cause}"
        f"The above exception was the direct cause of the following exception:\n{last}"
    )
    assert [found.message for found in raised.read(record(text))] == ["c", "b"]


def test_a_message_may_begin_behind_the_line_of_its_class() -> None:
    (found,) = raised.read(record("ValueError:\n    modules are spread\n    over two cards"))
    assert (found.message, found.rest) == ("modules are spread", "    over two cards")


def test_what_a_destructor_says_is_not_read() -> None:
    assert not list(
        raised.read(
            record("Exception ignored in: <function A.__del__>\n" + traceback("a.py", "f", "x", "TypeError: a"))
        )
    )


BOX = """╭──────── Traceback (most recent call last) ────────╮
│ /workspace/train.py:786 in <module>               │
│ ❱ 786 │   main(cfg)                               │
│ /opt/acme/utils/checkp                            │
│ oint.py:587 in read_all                           │
╰───────────────────────────────────────────────────╯
KeyError: 'state'
"""
BARE = """Traceback (most recent call last):
File "/workspace/train.py", line 8, in <module>
main()
^^^^^^
File "/opt/acme/checkpoint.py", line 31, in read_all
state = box["state"]
~~~^^^^^^^^^
KeyError: 'state'
"""
HEADLESS = """(Widget pid=4711)   File "/workspace/train.py", line 8, in <module>
(Widget pid=4711)     main()
(Widget pid=4711)   File "/opt/acme/checkpoint.py", line 31, in read_all
(Widget pid=4711)     state = box["state"]
(Widget pid=4711) KeyError: 'state'
"""

COMPOSED = "".join(f"trainer-1  | {line}\n" for line in BARE.replace("main()\n^^^^^^", "  main()").splitlines())
STAMPED = "".join(f"2026-01-02 03:04:0{number} worker-3 > {line}\n" for number, line in enumerate(BARE.splitlines()))
JSON = (
    '{"msg": "stopped\\nTraceback (most recent call last):\\n  File \\"/opt/acme/checkpoint.py\\", line 31, in '
    "read_all\\n    state = box[7]\\nKeyError: 'state'\"}\n"
)


@pytest.mark.parametrize("text", [BOX, BARE, HEADLESS, COMPOSED, STAMPED, JSON])
def test_tracebacks_are_read_whatever_was_done_to_them(text: str) -> None:
    found = analysed(text)[0]
    assert (found.name, found.category) == ("exception-of-unknown-message", "checkpoint")
    assert found.evidence[0].line == len(text.splitlines())
    assert found.captures["place"].endswith("checkpoint.py, read_all")


def test_a_line_that_labels_the_message() -> None:
    found = analysed("报错信息：ValueError: three widgets are one too many\n")[0]
    assert (found.name, found.category) == ("exception-of-unknown-message", "config")


def test_nothing_is_guessed_where_a_rule_knows() -> None:
    text = traceback("acme/data/packer.py", "pack", "raise RuntimeError(x)", "RuntimeError: nothing is left")
    names = [found.name for found in analysed(text + "OSError: [Errno 28] No space left on device: '/data/a'\n")]
    assert "disk-full" in names and "exception-of-unknown-message" not in names


def test_exceptions_that_only_pass_on_are_not_judged() -> None:
    text = traceback(
        "acme/data/x.py", "a", "raise E", "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: "
    )
    assert "exception-of-unknown-message" not in [found.name for found in analysed(text)]


def test_an_exception_that_the_training_got_over_is_a_note() -> None:
    text = traceback("acme/x.py", "a", "import widgetlib", "ModuleNotFoundError: No module named 'widgetlib'")
    before = analysed(text)[0]
    assert (before.name, before.severity) == ("exception-about-missing-module", "error")
    after = analysed(text + STEPS)
    assert {found.severity for found in after} == {"info"}
    assert "did not end the job" in after[0].summary and "并未终止作业" in after[0].i18n["zh"]["summary"]


def test_a_checkpoint_that_was_not_written_stays_a_warning() -> None:
    text = traceback("acme/x.py", "save_checkpoint", "write(x)", "RuntimeError: widget went away")
    found = next(found for found in analysed(STEPS + text + STEPS) if found.category == "checkpoint")
    assert (found.severity, found.impact.fatal) == ("warning", False)


def test_a_start_that_failed_ahead_of_another_one_stays_an_error() -> None:
    text = traceback("acme/x.py", "a", "import widgetlib", "ModuleNotFoundError: No module named 'widgetlib'")
    summary = "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:\ntrain.py FAILED\n"
    found = next(found for found in analysed(text + summary + STEPS) if found.category == "environment")
    assert found.severity == "error"


def test_two_steps_do_not_prove_that_it_went_on() -> None:
    text = traceback("acme/x.py", "a", "import widgetlib", "ModuleNotFoundError: No module named 'widgetlib'")
    assert analysed(text + "".join(STEPS.splitlines(True)[:2]))[0].severity == "error"
