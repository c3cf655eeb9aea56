r"""Undoes what terminals, containers, launchers and editors did to a text.

`plan` looks at the first bytes and says what a text needs; `iter_lines` does it, block by block, and does no more
than asked. What costs nothing to look for (escape sequences, carriage returns, backspaces, NUL bytes) is undone
wherever it turns up, planned or not.

Lines keep the number they have on disk. One physical line may give several texts: what a terminal would have shown
one after the other in the same place, as progress bars do.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, AnyStr, Protocol

import msgspec

from npudiag.errors import SourceError
from npudiag.parsers.bars import PERCENT, TRAINING

SAMPLE_BYTES = 256 * 1024
BLOCK_BYTES = 1 << 20
LONGEST_LINE = 1 << 20

_NOTES = ("blank-alternate", "mojibake")


@dataclass(frozen=True, slots=True)
class Plan:
    """What a text needs.

    Attributes:
        encoding: ``utf-8`` ``utf-8-sig`` ``utf-16-le`` ``utf-16-be`` ``gb18030`` ``latin-1``.
        binary: The bytes are no text.
        steps: What is to be undone, among ``crlf`` ``cr`` ``backspace`` ``nul`` ``ansi`` ``caret-ansi``
            ``docker-json`` ``cri`` ``grep-prefix``; and what is only worth telling: ``blank-alternate`` (every other
            line is blank), ``mojibake`` (UTF-8 was once read as something else).
    """

    encoding: str = "utf-8"
    binary: bool = False
    steps: tuple[str, ...] = ()

    @property
    def trivial(self) -> bool:
        """Whether the bytes can be used as they are."""
        return not self.binary and self.encoding == "utf-8" and all(step in _NOTES for step in self.steps)


@dataclass(slots=True)
class LineStats:
    """What `iter_lines` met.

    Attributes:
        lines: Physical lines so far.
        replaced: Undecodable places that became U+FFFD.
        cut_lines: Lines cut because they are longer than `LONGEST_LINE`.
        steps: What was undone, planned or not.
    """

    lines: int = 0
    replaced: int = 0
    cut_lines: int = 0
    steps: set[str] = field(default_factory=set)


class ByteStream(Protocol):
    """The part of a binary file used here."""

    def read(self, size: int, /) -> bytes:
        """Return up to `size` bytes, empty at the end."""


# --- what a text needs ------------------------------------------------------------------------------------------

_CONTROLS = bytes(set(range(32)) - set(b"\t\n\r\x0b\x0c\x1b\x08\x07\0"))
_BINARY_MAGIC = (
    b"\x7fELF", b"\x89PNG\r\n", b"\xff\xd8\xff", b"GIF8", b"SQLite format 3\0", b"\x89HDF\r\n", b"PAR1", b"\x93NUMPY",
    b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05", b"%PDF-", b"MZ\x90\0", b"\xca\xfe\xba\xbe",
)  # fmt: skip
_CARET = re.compile(rb"\^\[\[[0-9;?]{0,16}[mKHJABCDGhl]|\^\[\][0-2];")
_CARET_M = re.compile(rb"\^M\$?(?=\n|\Z)")
_GREP = re.compile(
    # path:12: or path-12- (context), or the number glued to a bracket
    r"^(?:[^\s:()\[\]{}\"'=,;|<>]*/)?[^\s:/()\[\]{}\"'=,;|<>]+\.(?:log|txt|out|err|json|csv|sh|old|\d+)(?:\.\d+)?"
    r"(?::\d+(?::|(?=\[))|-\d+-)",
    re.MULTILINE,
)
_GREP_NO_NUMBER = re.compile(
    r"^(?:[^\s:()\[\]{}\"'=,;|<>]*/)?[^\s:/()\[\]{}\"'=,;|<>]+\.(?:log|txt|out|err)(?:\.\d+)?:(?!\d+[:\[])(?=\S| {2})",
    re.MULTILINE,
)
_GREP_NUMBER = re.compile(r"^(\d{1,9})[:-](?=[^\d\s])", re.MULTILINE)
_CRI = re.compile(
    r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d) (?:stdout|stderr) [FP](?: |(?=\r?$))",
    re.MULTILINE,
)
_DOCKER_START = '{"log":"'
_MOJIBAKE = re.compile("[\u00c2-\u00f4][\u0080-\u00bf\u0152-\u02dc\u2013-\u2122]{1,3}")
_SAMPLE_LINES = 400


def plan(head: bytes, complete: bool) -> Plan:
    """Say what a text needs.

    Args:
        head: Its first bytes; more than `SAMPLE_BYTES` are not looked at.
        complete: Whether these are all there are.
    """
    if len(head) > SAMPLE_BYTES:
        head, complete = head[:SAMPLE_BYTES], False
    wide = _utf16(head)
    if wide is None and _is_binary(head):
        return Plan(binary=True)
    encoding = wide or _narrow_encoding(head, complete)
    text = codecs.getincrementaldecoder(encoding)("replace").decode(head, complete)
    raw = text.encode("utf-8", "surrogatepass") if wide else head
    steps: list[str] = []
    if b"\r" in raw:
        ends = raw.count(b"\r\n") + (complete and raw.endswith(b"\r"))
        if ends:
            steps.append("crlf")
        # A sample may end between the two characters of a line end.
        if raw.count(b"\r") > ends + (not complete and raw.endswith(b"\r")):
            steps.append("cr")
    if b"\x08" in raw:
        steps.append("backspace")
    if b"\0" in raw:
        steps.append("nul")
    if b"\x1b" in raw:
        steps.append("ansi")
    lines = _sample_lines(text, complete)
    if b"^" in raw and (_CARET.search(raw) or len(_CARET_M.findall(raw)) * 2 >= max(len(lines), 4)):
        steps.append("caret-ansi")
    steps += _framing(lines)
    if _every_other_blank(lines):
        steps.append("blank-alternate")
    if not text.isascii() and _is_mojibake(text):
        steps.append("mojibake")
    return Plan(encoding, False, tuple(steps))


def _utf16(head: bytes) -> str | None:
    """Return which UTF-16 it is, None for anything else."""
    for mark, name in ((codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be")):
        if head.startswith(mark) and not head.startswith(codecs.BOM_UTF32_LE):
            return name
    zeros = head.count(0)
    if len(head) < 16 or zeros * 5 < len(head):
        return None
    # ASCII text in UTF-16 has its zeros in every other place and nowhere else; they are outnumbered by nothing.
    even, odd = head[0::2].count(0), head[1::2].count(0)
    for name, many, few in (("utf-16-le", odd, even), ("utf-16-be", even, odd)):
        if many * 5 >= len(head) and few * 50 <= many:
            text = head.decode(name, "ignore")
            if sum(map(text.count, map(chr, _CONTROLS))) * 50 <= len(text):
                return name
    return None


def _is_binary(head: bytes) -> bool:
    if head.startswith(_BINARY_MAGIC):
        return True
    text = head.replace(b"\0", b"")
    if not text:
        # Nothing but zeros: the hole that a log leaves which was emptied while it was written to.
        return False
    zeros = len(head) - len(text)
    if zeros and len(re.findall(rb"\0+", head)) > 2 + len(head) // 4096:
        return True
    controls = len(text) - len(text.translate(None, _CONTROLS))
    return controls * 20 > len(text)


def _narrow_encoding(head: bytes, complete: bool) -> str:
    if head.startswith(codecs.BOM_UTF8):
        return "utf-8-sig"
    if head.isascii():
        return "utf-8"
    text = codecs.getincrementaldecoder("utf-8")("replace").decode(head, complete)
    bad = text.count("\ufffd") - head.count(b"\xef\xbf\xbd")
    good = len(text) - len(text.encode("ascii", "ignore")) - bad
    if bad <= good:
        return "utf-8"
    text = codecs.getincrementaldecoder("gb18030")("replace").decode(head, complete)
    foreign = [char for char in text if char > "\x7f"]
    # Nearly all must be of the common set: single bytes of other encodings make rare characters with what follows.
    common = sum(1 for char in foreign if _is_gb2312(char))
    return "gb18030" if common * 10 >= len(foreign) * 7 else "latin-1"


def _is_gb2312(char: str) -> bool:
    try:
        char.encode("gb2312")
    except UnicodeEncodeError:
        return False
    return True


def _sample_lines(text: str, complete: bool) -> list[str]:
    lines = text.split("\n", _SAMPLE_LINES)
    if len(lines) > 1 and (len(lines) > _SAMPLE_LINES or not complete or not lines[-1]):
        lines.pop()
    return [line.rstrip("\r") for line in lines]


def _framing(lines: list[str]) -> list[str]:
    """Return what stands around every line."""
    texts = [_strip_terminal(line) for line in lines if line and not line.isspace()]
    if not texts:
        return []
    found: list[str] = []
    if _most(texts, lambda line: line.startswith(_DOCKER_START) and _undocker(line) is not line):
        found.append("docker-json")
        texts = [_undocker(line) for line in texts]
    elif _most(texts, _CRI.match):
        found.append("cri")
        texts = [_CRI.sub("", line) for line in texts]
    if len(texts) >= 2 and _grep_form(texts):
        found.append("grep-prefix")
    return found


def _most(lines: list[str], test: Callable[[str], Any]) -> bool:
    return sum(1 for line in lines if test(line)) * 10 >= len(lines) * 6


def _grep_form(lines: list[str]) -> re.Pattern[str] | None:
    if _most(lines, _GREP.match):
        return _GREP
    if len(lines) < 3:
        return None
    if _most(lines, _GREP_NO_NUMBER.match):
        return _GREP_NO_NUMBER
    numbers = [int(match[1]) for line in lines if (match := _GREP_NUMBER.match(line))]
    # Numbers that only grow are line numbers; a launcher's labels come again and again.
    if len(numbers) * 10 >= len(lines) * 9 and all(a < b for a, b in pairwise(numbers)):
        return _GREP_NUMBER
    return None


def _every_other_blank(lines: list[str]) -> bool:
    if len(lines) < 8:
        return False
    blank = [not line or line.isspace() for line in lines]
    for first in (0, 1):
        if sum(blank[first::2]) * 20 >= len(blank[first::2]) * 19 and sum(blank[1 - first :: 2]) * 10 <= len(blank):
            return True
    return False


def _is_mojibake(text: str) -> bool:
    """Say whether three places turn into one character each when their encoding is undone."""
    found = 0
    for match in _MOJIBAKE.finditer(text):
        for wrong in ("cp1252", "latin-1"):
            try:
                if len(match[0].encode(wrong).decode("utf-8")) == 1:
                    found += 1
                    break
            except UnicodeError:
                continue
        if found == 3:
            return True
    return False


# --- undoing it -------------------------------------------------------------------------------------------------

_ANSI = re.compile(
    "\x1b(?:"
    r"\[[0-?]*[ -/]*[@-~]"  # control sequence: colours, cursor, erasing
    "|\\][^\x07\x1b\n]*(?:\x07|\x1b\\\\)"  # window title, hyperlink
    "|[PX^_][^\x1b\n]*\x1b\\\\"  # device control and other strings
    r"|[ -/]+[0-~]"  # character set
    "|[0-OQ-WYZ\\\\`-~]"  # everything of two characters
    "|\\][0-9;]*"  # a title that never ends
    ")?"
)
_ELSEWHERE = re.compile("\x1b\\[(?:[01]?G|[0-9]{0,4}A)")
"""What moves to the first column, or to a line above where another bar stands."""
_CARET_ANSI = re.compile(r"\^\[(?=[\[\]()])")
_BAR = re.compile(
    # tqdm: "what: 12%|###   | 3/25 [00:01<00:09, 2.4it/s]", or "12it [00:01, 2.4it/s]" where the total is unknown.
    # A bar that tells more (", loss=0.3" at its end) is more than a bar.
    rf"(?:(?P<label>[^|]*?){PERCENT}(?P<place>[\d.]+[kMGT]?i?B?/[\d.?]+[kMGT]?i?B?)|[\d.]+[kMGT]?i?(?:it|B))"
    r"\s*\[[^\],]*,[^\],]*\]\s*"
)
_TRAINING = re.compile(rf"\s*(?:{TRAINING}[\s:]*)?")
_LONGEST_BAR = 400
_BACKSPACES = re.compile("(\x08+)")
_REWIND = 8  # going back to the start over at least so many characters begins a new text


def iter_lines(stream: ByteStream, plan: Plan, stats: LineStats | None = None) -> Iterator[tuple[int, str]]:
    r"""Yield each line with its number.

    Args:
        stream: Where to read from; read in blocks of `BLOCK_BYTES`.
        plan: What the text needs.
        stats: Filled in on the way. Where its `lines` is not 0, numbers go on from there.

    Yields:
        Number of the physical line (from 1, lines end with a newline and nothing else) and its text, clean and
        without line end. Several texts of one physical line carry the same number. Blank lines are yielded.

    Raises:
        SourceError: The stream broke off; everything ahead of that was yielded.
    """
    stats = stats if stats is not None else LineStats()
    cleaner = _Cleaner(plan, stats)
    number = stats.lines + 1
    goes_on = False
    for text, ends in _chunks(stream, plan, stats):
        count = text.count("\n")
        # While a caller looks at the lines of this piece, they count as read.
        stats.lines = number + count
        if ends and not goes_on and not cleaner.needs_terminal(text):
            yield from enumerate(cleaner.peel(cleaner.scrub(text)).split("\n"), number)
        else:
            yield from cleaner.lines(text, number, goes_on)
        number += count + ends
        goes_on = not ends


class _Cleaner:
    """Undoes everything in a piece of whole lines at once, as far as that is possible."""

    def __init__(self, plan: Plan, stats: LineStats) -> None:
        self._docker = "docker-json" in plan.steps
        self._caret = "caret-ansi" in plan.steps
        self._cri = "cri" in plan.steps
        self._grep = "grep-prefix" in plan.steps
        self._grep_form: re.Pattern[str] | None = None
        self._stats = stats
        stats.steps.update(step for step in plan.steps if step not in _NOTES)

    def needs_terminal(self, text: str) -> bool:
        """Say whether a line may give several texts, or none of the characters in it."""
        return self._docker or self._caret or "\r" in text or "\x1b" in text or "\x08" in text

    def scrub(self, text: str) -> str:
        """Remove what is invisible."""
        if "\0" in text:
            self._stats.steps.add("nul")
            text = text.replace("\0", "")
        # Where files were joined, byte order marks stand in the middle.
        return text.replace("\ufeff", "") if "\ufeff" in text else text

    def peel(self, text: str) -> str:
        """Remove what other programs put in front of every line."""
        if self._cri:
            text = _CRI.sub("", text)
        if self._grep:
            if self._grep_form is None:
                lines = text.split("\n", _SAMPLE_LINES)[:_SAMPLE_LINES]
                self._grep_form = _grep_form([line for line in lines if line and not line.isspace()]) or _GREP
            text = self._grep_form.sub("", text)
        return text

    def lines(self, text: str, number: int, goes_on: bool) -> Iterator[tuple[int, str]]:
        """Yield the texts of a piece that a terminal, or docker, had to do with.

        Args:
            text: Lines, without the last one's end.
            number: Number of the first line.
            goes_on: The first line is the rest of one that was yielded in part.
        """
        steps = self._stats.steps
        text = self.scrub(text)
        if self._docker:
            # One JSON string may hold several lines; they belong to the physical line they stand in.
            text = "\n".join(_undocker(line).rstrip("\n").replace("\n", "\r") for line in text.split("\n"))
        if self._caret:
            text = _uncaret(text)
        if "\x1b" in text:
            steps.add("ansi")
            text = _ANSI.sub("", _ELSEWHERE.sub("\r", text))
        if "\r\n" in text or text.endswith("\r"):
            steps.add("crlf")
            text = text.replace("\r\n", "\n").removesuffix("\r")
        returns, backspaces = "\r" in text, "\x08" in text
        if returns:
            steps.add("cr")
        if backspaces:
            steps.add("backspace")
        text = self.peel(text)
        if not (returns or backspaces or goes_on):
            yield from enumerate(text.split("\n"), number)
            return
        for at, line in enumerate(text.split("\n"), number):
            shown = _shown(line) if "\r" in line or "\x08" in line else [line] if line else []
            for part in shown:
                yield at, part
            if not shown and not goes_on:
                yield at, ""
            goes_on = False


def _strip_terminal(line: str) -> str:
    return _ANSI.sub("", line) if "\x1b" in line else line


def _uncaret(text: str) -> str:
    text = _CARET_ANSI.sub("\x1b", text)
    return text.replace("^M", "\r").replace("^G", "\x07").replace("^H", "\x08")


def _shown(line: str) -> list[str]:
    """Return the texts that a line with returns and backspaces showed.

    Of bars with the same label, such as those of a download, the first and the last are kept. Those of a training loop
    tell the time of a step: there it is those at the same place of which two are enough.
    """
    texts: list[str] = []
    for segment in line.split("\r"):
        for text in _backspaced(segment) if "\x08" in segment else (segment,):
            if text and not text.isspace():
                texts.append(text)
    if len(texts) < 3:
        return texts
    out: list[str] = []
    last: tuple[str, str] | None = None
    bars = 0
    for text in texts:
        bar = _BAR.fullmatch(text) if len(text) < _LONGEST_BAR else None
        what = _kind_of_bar(bar) if bar else None
        bars = 0 if what is None else bars + 1 if what == last else 1
        last = what
        if bars > 2:
            out[-1] = text
        else:
            out.append(text)
    return out


def _kind_of_bar(bar: re.Match[str]) -> tuple[str, str]:
    """Return what bars have in common of which two are enough: the label, of a training loop the place as well."""
    label = bar["label"]
    if label is None:
        return "", ""
    return label.rstrip(), bar["place"] if _TRAINING.fullmatch(label) else ""


def _backspaced(text: str) -> list[str]:
    """Apply backspaces as a terminal does: the cursor moves, and what follows writes over what was there."""
    texts: list[str] = []
    shown: list[str] = []
    at = 0
    for index, run in enumerate(_BACKSPACES.split(text)):
        if index % 2:
            if len(run) >= at >= _REWIND:
                texts.append("".join(shown))
                shown = []
                at = 0
            else:
                at = max(0, at - len(run))
        elif run:
            shown[at : at + len(run)] = run
            at += len(run)
    texts.append("".join(shown))
    return texts


class _DockerLine(msgspec.Struct):
    log: str


_docker = msgspec.json.Decoder(_DockerLine)


def _undocker(line: str) -> str:
    """Return what docker's JSON holds; the line itself where it is something else."""
    if not line.startswith("{"):
        return line
    try:
        return _docker.decode(line).log
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return line


# --- blocks -----------------------------------------------------------------------------------------------------


def _chunks(stream: ByteStream, plan: Plan, stats: LineStats) -> Iterator[tuple[str, bool]]:
    """Yield decoded pieces of whole lines, without the newline behind the last one.

    Yields:
        The piece, and whether its last line ends there. Where not, the next piece goes on with the same physical line.
    """
    encoding = plan.encoding
    if encoding.startswith("utf-16"):
        yield from _split(_decoded(stream, encoding, stats), "\n", ("\r", "\x08"), "\0", stats)
        return
    narrow = "utf-8" if encoding == "utf-8-sig" else encoding
    for piece, ends in _split(_blocks(stream), b"\n", (b"\r", b"\x08"), b"\0", stats):
        yield _decode(piece, narrow, stats), ends


def _decode(data: bytes, encoding: str, stats: LineStats) -> str:
    try:
        return data.decode(encoding)
    except UnicodeDecodeError:
        text = data.decode(encoding, "replace")
        stats.replaced += text.count("\ufffd") - (data.count(b"\xef\xbf\xbd") if encoding == "utf-8" else 0)
        return text


def _blocks(stream: ByteStream) -> Iterator[bytes]:
    while block := stream.read(BLOCK_BYTES):
        yield block


def _decoded(stream: ByteStream, encoding: str, stats: LineStats) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    fault: SourceError | None = None
    blocks = _blocks(stream)
    while True:
        block = b""
        try:
            block = next(blocks, b"")
        except SourceError as exc:
            fault = exc
        text = decoder.decode(block, not block)
        stats.replaced += text.count("\ufffd")
        if text:
            yield text
        if fault:
            raise fault
        if not block:
            return


def _split(
    blocks: Iterable[AnyStr], newline: AnyStr, marks: tuple[AnyStr, AnyStr], nul: AnyStr, stats: LineStats
) -> Iterator[tuple[AnyStr, bool]]:
    """Cut blocks at line ends. Holds one line of bounded length and one block, whatever is in the stream.

    A line that is too long is yielded in parts where a terminal would have begun to write over it (behind the last of
    `marks`); a part that is too long by itself is cut.
    """
    empty = newline[:0]
    rest = empty
    skipping = inside = False  # inside: parts of the line that `rest` belongs to were yielded
    fault: SourceError | None = None
    source = iter(blocks)
    while True:
        block = empty
        try:
            block = next(source, empty)
        except SourceError as exc:
            fault = exc
        if not block:
            break
        if skipping:
            at = block.find(newline)
            if at < 0:
                continue
            block = block[at + 1 :]
            skipping = False
        at = block.rfind(newline)
        if at >= 0:
            piece, rest = rest + block[:at], block[at + 1 :]
            # Only the first line can be too long: the others lie within one block.
            first = piece.find(newline, 0, LONGEST_LINE + 1)
            if len(piece) > LONGEST_LINE and first < 0:
                piece = _cut_first(piece, newline, marks, nul, stats)
            yield piece, True
            inside = False
            continue
        rest += block
        if len(rest) <= LONGEST_LINE:
            continue
        at = max(rest.rfind(mark) for mark in marks)
        if at > 0:
            yield rest[:at], False
            inside = True
            rest = rest[at + 1 :]
        if len(rest) > LONGEST_LINE and nul in rest:
            stats.steps.add("nul")
            rest = rest.replace(nul, empty)
        if len(rest) > LONGEST_LINE:
            stats.cut_lines += 1
            yield rest[:LONGEST_LINE], True
            rest, skipping, inside = empty, True, False
    if rest or inside:
        yield rest, True
    if fault:
        raise fault


def _cut_first(piece: AnyStr, newline: AnyStr, marks: tuple[AnyStr, AnyStr], nul: AnyStr, stats: LineStats) -> AnyStr:
    """Return `piece` with its first line cut, unless that is made of several short texts."""
    line, end, others = piece.partition(newline)
    if len(line) <= LONGEST_LINE or marks[0] in line or marks[1] in line:
        return piece
    line = line.replace(nul, nul[:0])
    if len(line) > LONGEST_LINE:
        stats.cut_lines += 1
        line = line[:LONGEST_LINE]
    return line + end + others
