"""``npudiag explain``: says what a code, a message or a pasted piece of log means.

It is answered before the command-line framework is loaded: people type it again and again, and a leading dash
(``explain -9``, ``explain --some-flag``) is part of the question, not an option.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from npudiag.errors import Exit, UsageError
from npudiag.report.safe_text import visible
from npudiag.report.texts import Text as Word
from npudiag.report.texts import as_lang, pick_lang, say
from npudiag.report.wrap import cut, text_width, wrap

if TYPE_CHECKING:
    from npudiag.advice.explain import Explained
    from npudiag.engine.load import RulePack
    from npudiag.engine.model import Rule, Text
    from npudiag.knowledge.model import Answer, Entry, KnownBy
    from npudiag.knowledge.search import Found
    from npudiag.result import Finding

USAGE = """Usage: npudiag explain [--json] [--lang en|zh] CODE|OPTION|TEXT...
       npudiag explain [-] < TEXT

Say what a code, an option, a message or a pasted piece of log means, which rule knows it, and what to do.

  npudiag explain 507015                       a return code
  npudiag explain EI0006 0x80E01801 -9         several codes
  npudiag explain '(0x800000, 0, 0)'           error registers of an AI Core
  npudiag explain --overlap-grad-reduce        an option: what it takes and needs, who accepts it
  npudiag explain HCCL_CONNECT_TIMEOUT         an environment variable
  npudiag explain notify wait timeout          words
  npudiag explain - < plog.txt                 a block of log: the rules are run on it

Options:
  --json            Print JSON.
  --lang en|zh      Language of texts. [default: by locale]
  --                What follows is no option.
  -h, --help        Show this message.

Exit codes: 0 something was explained, 2 wrong usage, 3 nothing was recognised."""

_STDIN_BYTES = 4 << 20
_WIDTH = 100
_LABEL = 10
_MOST_ANSWERS = 12
_LOG_LIKE = 60
"""From this length on words on the command line count as a piece of log."""


class _Say:
    means = Word("Means", "含义")
    causes = Word("Causes", "常见原因")
    look = Word("Look at", "进一步查看")
    do = Word("Do", "处理建议")
    holds = Word("Made of", "组成")
    rules = Word("Rules", "相关规则")
    unknown = Word("This code is not in the catalogue.", "该码未收录。")
    nearest = Word("Closest", "相近的码")
    found = Word("In this text the rules find", "规则在该文本中的发现")
    similar = Word("What fits these words", "与关键词相符的内容")
    nothing = Word("nothing is known about {what}", "未识别：{what}")
    hint = Word(
        "give a code as it is printed, words of a message, or a block of log on standard input",
        "请输入打印出的错误码、报错中的关键词，或通过标准输入粘贴日志",
    )
    several = Word("{n} meanings, by who prints it", "共 {n} 种含义，取决于打印者")
    more = Word("npudiag rules show {code} shows the whole rule", "npudiag rules show {code} 可查看完整规则")


@dataclass(slots=True)
class Request:
    """The command line, split.

    Attributes:
        words: The question.
        lang: ``en`` or ``zh``.
        json: Whether to print JSON.
        help: Whether only the usage is asked for.
    """

    words: list[str] = field(default_factory=list)
    lang: str = "en"
    json: bool = False
    help: bool = False


class Told(NamedTuple):
    """Everything there is to say."""

    query: str
    answers: list[Answer]
    rules: list[Rule]
    findings: list[Finding]
    found: list[Found]


def split(args: Sequence[str]) -> Request:
    """Take the few options of this verb out of `args`; everything else is the question.

    Raises:
        UsageError: An option lacks its value or has a wrong one.
    """
    request = Request(lang=pick_lang(os.environ))
    rest = list(args)
    while rest:
        word = rest.pop(0)
        name, equals, value = word.partition("=")
        if word == "--":
            request.words += rest
            break
        if word in ("-h", "--help"):
            request.help = True
        elif word == "--json":
            request.json = True
        elif name == "--lang":
            if not equals:
                value = rest.pop(0) if rest else ""
            if value not in ("en", "zh"):
                raise UsageError(f"--lang takes en or zh, not {value!r}")
            request.lang = as_lang(value)
        else:
            request.words.append(word)
    return request


def main(args: Sequence[str]) -> int:
    """Answer one question.

    Args:
        args: What follows ``explain`` on the command line.

    Raises:
        UsageError: There is no question, or an option is wrong.
        RuleError: A rule or catalogue file is broken.
    """
    request = split(args)
    if request.help:
        print(USAGE)
        return Exit.OK.value
    pasted = request.words == ["-"] or not request.words
    text = _read_stdin(asked=bool(request.words)) if pasted else " ".join(request.words)
    if not text.strip():
        raise UsageError("there is nothing to explain", hint=say(_Say.hint, request.lang))
    if not pasted:
        from npudiag.advice.explain import explain_option

        single = request.words[0].startswith("--") or len(request.words) == 1
        # Articles also have names of several words.
        option = explain_option(request.words[0]) if single else explain_option(text)
        if option is not None:
            _print_option(option, json=request.json, lang=request.lang)
            return Exit.OK.value
    from npudiag.engine.load import load_pack

    pack = load_pack()
    words = [text.strip()] if pasted else request.words
    told = tell(words, pack, as_log=pasted)
    if request.json:
        _print_json(told)
    elif _anything(told):
        _print(render(told, request.lang), request.lang)
    if _anything(told):
        return Exit.OK.value
    what = visible(cut(" ".join(told.query.split()), 60))
    print(f"npudiag: {say(_Say.nothing, request.lang, what=repr(what))}", file=sys.stderr)
    print(f"npudiag: hint: {say(_Say.hint, request.lang)}", file=sys.stderr)
    return Exit.NOTHING_RECOGNISED.value


def _print_option(option: Explained, *, json: bool, lang: str) -> None:
    """Print what is known of an option or variable."""
    if json:
        import msgspec

        sys.stdout.write(msgspec.json.format(msgspec.json.encode(option), indent=1).decode() + "\n")
        return
    from npudiag.advice.explain import lines

    shown = [Line(option.name, style="head"), *(Line(text, label) for label, text in lines(option, lang))]
    _print(shown, lang)


def _read_stdin(*, asked: bool) -> str:
    """Return what was piped in; nothing where nobody asked for it and a person sits there."""
    if not asked and sys.stdin.isatty():
        return ""
    return sys.stdin.buffer.read(_STDIN_BYTES).decode("utf-8", "replace")


def _anything(told: Told) -> bool:
    return any((told.answers, told.rules, told.findings, told.found))


def tell(words: Sequence[str], pack: RulePack, *, as_log: bool = False) -> Told:
    """Gather everything there is to say about a question.

    Args:
        words: The words of the command line, or one text from standard input.
        pack: The rules.
        as_log: Whether the text may be a piece of log of any length.
    """
    from npudiag.knowledge.lookup import codes_in, lookup

    text = " ".join(words)
    rule = pack.find(text)
    if rule is not None:
        return Told(text, [], [rule], [], [])
    whole = lookup(text, pack)
    if whole.family is not None:
        return Told(text, [whole], [], [], [])
    each = [lookup(word, pack) for word in words] if 1 < len(words) <= _MOST_ANSWERS else []
    if each and all(answer.family is not None for answer in each):
        return Told(text, each, [], [], [])
    answers = [answer for code in codes_in(text)[:_MOST_ANSWERS] if (answer := lookup(code, pack)).family is not None]
    log_like = as_log or (bool(answers) and len(text) >= _LOG_LIKE)
    findings = _findings(text, pack) if log_like else []
    found: list[Found] = []
    if not findings and "\n" not in text and len(text) <= 300:
        from npudiag.knowledge.search import search

        found = search(text, pack)
    return Told(text, answers, [], findings, found)


def _findings(text: str, pack: RulePack) -> list[Finding]:
    """Run the rules on a piece of log."""
    from npudiag.judging import judge_text

    return [
        finding
        for finding in judge_text(text, pack.rules)
        if finding.category != "insufficient-evidence" and finding.status == "fail"
    ]


# -- for programs


def _print_json(told: Told) -> None:
    import msgspec

    document = {
        "query": told.query,
        "answers": [_answer_document(answer) for answer in told.answers],
        "rules": [{"code": rule.code, "name": rule.name, "title": rule.title, "why": rule.why} for rule in told.rules],
        "findings": told.findings,
        "found": [
            {"score": item.score, "rule": item.rule, "entry": _entry_document(item.entry) if item.entry else None}
            for item in told.found
        ],
    }
    sys.stdout.write(msgspec.json.format(msgspec.json.encode(document), indent=1).decode() + "\n")


def _answer_document(answer: Answer) -> dict[str, Any]:
    return {
        "query": answer.query,
        "known": bool(answer.entries),
        "family": answer.family,
        "entries": [_entry_document(entry) for entry in answer.entries],
        "nearest": [{"code": entry.code, "means": entry.means} for entry in answer.nearest],
        "rules": answer.rules,
    }


def _entry_document(entry: Entry) -> dict[str, Any]:
    from npudiag.knowledge.catalogue import shipped

    advice = shipped().advice[entry.advice]
    return {
        "code": entry.code,
        "family": entry.family,
        "symbol": entry.symbol,
        "severity": entry.severity,
        "trust": entry.trust,
        "means": entry.means,
        "causes": advice.causes,
        "look": advice.look,
        "do": advice.do,
        "details": entry.details,
    }


# -- for people


class Line(NamedTuple):
    """One line of the answer.

    Attributes:
        text: What it says, wrapped by the printer.
        label: What stands before it.
        style: ``head``, ``plain`` or ``faint``.
    """

    text: str
    label: str = ""
    style: str = "plain"


def render(told: Told, lang: str) -> list[Line]:
    """Return the answer as lines."""
    lines: list[Line] = []
    for finding in told.findings:
        if finding is told.findings[0]:
            lines.append(Line(say(_Say.found, lang), style="head"))
        lines += _finding_lines(finding, lang)
    for answer in told.answers:
        if lines:
            lines.append(Line(""))
        lines += _answer_lines(answer, lang)
    for rule in told.rules:
        lines += _rule_lines(rule, lang)
    if told.found:
        if lines:
            lines.append(Line(""))
        lines.append(Line(say(_Say.similar, lang), style="head"))
        lines += [_found_line(item, lang) for item in told.found]
        best = told.found[0]
        # The best fit is told in full: mostly it is what was meant.
        if not told.answers:
            lines.append(Line(""))
            lines += _best_lines(best, lang)
    return lines


def _best_lines(best: Found, lang: str) -> list[Line]:
    from npudiag.engine.load import load_pack

    if best.entry is not None:
        return _entry_lines(best.entry, lang, ())
    rule = load_pack().find(best.rule.code) if best.rule else None
    return _rule_lines(rule, lang) if rule is not None else []


def _answer_lines(answer: Answer, lang: str) -> list[Line]:
    if not answer.entries:
        return _unknown_lines(answer, lang)
    lines: list[Line] = []
    if len(answer.entries) > 1:
        head = say(_Say.several, lang, n=len(answer.entries))
        lines += [Line(f"{visible(answer.query)}: {head}", style="head"), Line("")]
    for number, entry in enumerate(answer.entries):
        if number:
            lines.append(Line(""))
        lines += _entry_lines(entry, lang, answer.rules if number == 0 else ())
    return lines


def _entry_lines(entry: Entry, lang: str, rules: Sequence[KnownBy]) -> list[Line]:
    from npudiag.knowledge.catalogue import shipped

    known = shipped()
    advice = known.advice[entry.advice]
    named = f"  {entry.symbol}" if entry.symbol else ""
    lines = [
        Line(f"{entry.code}{named}", style="head"),
        Line(f"{_of(known.families[entry.family].title, lang)} · {entry.severity} · {entry.trust}", style="faint"),
        Line(_of(entry.means, lang), say(_Say.means, lang)),
    ]
    for number, detail in enumerate(entry.details):
        lines.append(Line(_of(detail, lang), say(_Say.holds, lang) if number == 0 else ""))
    lines += [
        Line(_of(advice.causes, lang), say(_Say.causes, lang)),
        Line(_of(advice.look, lang), say(_Say.look, lang)),
        Line(_of(advice.do, lang), say(_Say.do, lang)),
    ]
    for number, rule in enumerate(rules):
        text = f"{rule.code} {rule.name}: {_of(rule.title, lang)}"
        lines.append(Line(text, say(_Say.rules, lang) if number == 0 else ""))
    return lines


def _unknown_lines(answer: Answer, lang: str) -> list[Line]:
    from npudiag.knowledge.catalogue import shipped

    family = answer.family
    if family is None:
        return []
    advice = shipped().advice[family.advice]
    lines = [
        Line(visible(answer.query), style="head"),
        Line(f"{_of(family.title, lang)} · {say(_Say.unknown, lang)}", style="faint"),
        Line(_of(family.means, lang), say(_Say.means, lang)),
    ]
    for number, entry in enumerate(answer.nearest):
        label = say(_Say.nearest, lang) if number == 0 else ""
        lines.append(Line(f"{entry.code}: {_of(entry.means, lang)}", label))
    lines += [Line(_of(advice.look, lang), say(_Say.look, lang)), Line(_of(advice.do, lang), say(_Say.do, lang))]
    return lines


def _rule_lines(rule: Rule, lang: str) -> list[Line]:
    from npudiag.knowledge.lookup import reference

    lines = [
        Line(f"{rule.code}  {rule.name}", style="head"),
        Line(f"{rule.category} · {rule.severity} · {rule.trust}", style="faint"),
        Line(_of(reference(rule).title, lang), say(_Say.means, lang)),
        Line(_of(rule.why, lang), say(_Say.causes, lang)),
    ]
    label = say(_Say.do, lang)
    for remedy in rule.remedies:
        lines.append(Line(_of(remedy.text, lang), label))
        label = ""
        if remedy.command:
            lines.append(Line(f"$ {remedy.command}", "", "faint"))
    lines.append(Line(say(_Say.more, lang, code=rule.code), "", "faint"))
    return lines


def _finding_lines(finding: Finding, lang: str) -> list[Line]:
    from npudiag.report.localise import words

    said = words(finding, lang)
    lines = [Line(f"{finding.code} {finding.name} · {finding.severity} · {finding.role}", style="faint")]
    lines.append(Line(visible(said.title), say(_Say.means, lang)))
    if said.summary:
        lines.append(Line(visible(said.summary), say(_Say.causes, lang)))
    for number, remedy in enumerate(said.remedies[:3]):
        lines.append(Line(visible(remedy.text), say(_Say.do, lang) if number == 0 else ""))
    return lines


def _found_line(item: Found, lang: str) -> Line:
    if item.rule is not None:
        return Line(f"{item.rule.code} {item.rule.name}: {_of(item.rule.title, lang)}", " ")
    return Line(f"{item.entry.code}: {_of(item.entry.means, lang)}", " ") if item.entry else Line("")


def _of(text: Text, lang: str) -> str:
    return text.zh if lang == "zh" else text.en


_STYLES = {"head": "\x1b[1m", "faint": "\x1b[2m"}


def _print(lines: Sequence[Line], lang: str) -> None:
    """Print lines: labels in a column, text wrapped beside them; styled where somebody looks."""
    styled = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    width = min(shutil.get_terminal_size((_WIDTH, 40)).columns, _WIDTH) if sys.stdout.isatty() else _WIDTH
    label_width = max(_LABEL, *(text_width(line.label) + 2 for line in lines)) if lines else _LABEL
    for line in lines:
        indent = "" if line.style == "head" or (line.style == "faint" and not line.text.startswith("$")) else " "
        if line.label:
            indent = f"{line.label}{' ' * (label_width - text_width(line.label))}"
        elif indent:
            indent = " " * label_width
        room = max(20, width - text_width(indent))
        pieces = wrap(line.text, room) if line.text else [""]
        for number, piece in enumerate(pieces):
            lead = indent if number == 0 else " " * text_width(indent)
            text = f"{_STYLES[line.style]}{piece}\x1b[0m" if styled and line.style in _STYLES else piece
            print(f"{lead}{text}".rstrip())
