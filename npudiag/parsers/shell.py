"""Reads a shell script without running it: variables, exports, and the words of its commands with their lines.

It knows what launch scripts use: quoting, nested variables, defaults, integer arithmetic, arrays, continued lines.
What only a shell could tell (command output, positional parameters, loops) stays unknown and is marked so.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ASSIGN = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\+?)=")
_DEFAULT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*|[0-9@*#?!-])(?:\[[@*0-9]+\])?(:?[-=])(.*)\Z", re.DOTALL)
_ARRAY = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)\[[@*]\]\Z")
_OPENS = ("if", "elif", "while", "until", "for", "select", "case")
_SKIPPED = ("then", "else", "do", "{", "!", "time")
_CLOSES = ("fi", "done", "esac", "}")
_WORDS_IN_ALL = 20_000
_DEEPEST = 24
_LONGEST = 100_000
_PIECES = 8_000
_PIECES_IN_ALL = 400_000


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a word.

    Attributes:
        text: The text; for something unknown, how the script writes it.
        line: Line that uses it.
        origin: Line that its text stands in, where a variable brought it.
        known: Whether `text` is what the shell would make of it.
        sure: Whether nothing outside the script, and no branch in it, decides.
        split: Whether blanks in it separate words.
    """

    text: str
    line: int
    origin: int
    known: bool = True
    sure: bool = True
    split: bool = False


@dataclass(frozen=True, slots=True)
class Word:
    """A word as the command gets it, as far as that is known."""

    text: str
    line: int
    origin: int
    known: bool = True
    sure: bool = True


@dataclass(slots=True)
class Command:
    """A simple command: its words, and the variables set for it alone."""

    words: list[Word]
    line: int
    sure: bool
    exports: dict[str, Word] = field(default_factory=dict)


@dataclass(slots=True)
class Script:
    """What a script sets and calls.

    Attributes:
        variables: Name to value and whether it is exported, as they are at the end.
        commands: In order of the script.
    """

    variables: dict[str, tuple[Word, bool]] = field(default_factory=dict)
    commands: list[Command] = field(default_factory=list)


def read(text: str) -> Script:
    """Read a script. Never raises: what cannot be understood is left out."""
    return _Interpreter(text).run()


# -- tokens


@dataclass(frozen=True, slots=True)
class _Part:
    kind: str
    """``text`` ``variable`` ``unknown`` ``arithmetic`` ``array``"""
    text: str
    line: int
    quoted: bool = False
    parts: tuple[tuple[_Part, ...], ...] = ()


_Token = tuple[str, tuple[_Part, ...], int]
"""Kind (``word``, ``end``), parts, line."""


class _Lexer:
    def __init__(self, text: str, line: int = 1, depth: int = 0) -> None:
        self.text = text
        self.at = 0
        self.line = line
        self.depth = depth
        self.heredocs: list[tuple[str, bool]] = []

    def peek(self, ahead: int = 0) -> str:
        index = self.at + ahead
        return self.text[index] if index < len(self.text) else ""

    def take(self) -> str:
        char = self.text[self.at]
        self.at += 1
        if char == "\n":
            self.line += 1
        return char

    def tokens(self, closing: str = "") -> list[_Token]:
        """Return tokens up to `closing` or the end."""
        out: list[_Token] = []
        while self.at < len(self.text) and len(out) < _WORDS_IN_ALL:
            char = self.peek()
            if char == closing and closing:
                self.take()
                break
            if char in " \t\r":
                self.take()
            elif char == "\\" and self.peek(1) == "\n":
                self.take()
                self.take()
            elif char == "#":
                while self.at < len(self.text) and self.peek() != "\n":
                    self.take()
            elif char == "\n":
                out.append(("end", (), self.line))
                self.take()
                self._heredocs()
            elif char in ";&|()":
                if char == "&" and self.peek(1) == ">":
                    self.take()
                    self._redirect()
                    continue
                out.append(("pipe" if char == "|" and self.peek(1) != "|" else "end", (), self.line))
                self.take()
            elif char in "<>":
                self._redirect()
            elif char.isdigit() and re.match(r"\d[<>]", self.text[self.at : self.at + 2]):
                self.take()
                self._redirect()
            else:
                line = self.line
                parts = self.word()
                if parts:
                    out.append(("word", parts, line))
        return out

    def _redirect(self) -> None:
        first = self.take()
        if first == "<" and self.peek() == "<" and self.peek(1) != "<":
            self.take()
            dash = self.peek() == "-"
            if dash:
                self.take()
            while self.peek() in (" ", "\t"):
                self.take()
            mark = "".join(part.text for part in self.word())
            if mark:
                self.heredocs.append((mark, dash))
            return
        while self.peek() in (">", "<", "&", " ", "\t", "|") and self.peek():
            self.take()
        self.word()

    def _heredocs(self) -> None:
        for mark, dash in self.heredocs:
            while self.at < len(self.text):
                stop = self.text.find("\n", self.at)
                stop = len(self.text) if stop < 0 else stop
                line = self.text[self.at : stop]
                self.at = min(stop + 1, len(self.text))
                self.line += 1
                if (line.lstrip("\t") if dash else line).rstrip("\r") == mark:
                    break
        self.heredocs = []

    def word(self) -> tuple[_Part, ...]:
        """Read one word."""
        parts: list[_Part] = []
        plain: list[str] = []
        start = self.line

        def flush() -> None:
            if plain:
                parts.append(_Part("text", "".join(plain), start))
                plain.clear()

        while self.at < len(self.text):
            char = self.peek()
            if char in " \t\r\n;|<>)" or (char == "&"):
                break
            if char == "(":
                if plain and plain[-1] == "=" and not parts and self.depth < _DEEPEST:
                    flush()
                    self.take()
                    inner = _Lexer(self.text, self.line, self.depth + 1)
                    inner.at = self.at
                    found = inner.tokens(")")
                    self.at, self.line = inner.at, inner.line
                    words = tuple(token[1] for token in found if token[0] == "word")
                    parts.append(_Part("array", "", start, parts=words))
                    continue
                break
            if char == "\\":
                self.take()
                if self.peek() == "\n":
                    self.take()
                elif self.peek():
                    flush()
                    parts.append(_Part("text", self.take(), self.line, quoted=True))
            elif char == "'":
                flush()
                self._single(parts)
            elif char == '"':
                flush()
                self._double(parts)
            elif char == "$" and self.peek(1) == "'":
                flush()
                self.take()
                self._single(parts)
            elif char in "$`":
                flush()
                parts.append(self._dollar(quoted=False))
            else:
                if not plain:
                    start = self.line
                plain.append(self.take())
        flush()
        return tuple(parts)

    def _single(self, parts: list[_Part]) -> None:
        self.take()
        line, chars = self.line, [""]
        while self.at < len(self.text) and self.peek() != "'":
            char = self.take()
            chars.append(char)
            if char == "\n":
                parts.append(_Part("text", "".join(chars), line, quoted=True))
                line, chars = self.line, [""]
        if self.peek():
            self.take()
        parts.append(_Part("text", "".join(chars), line, quoted=True))

    def _double(self, parts: list[_Part]) -> None:
        self.take()
        line, chars = self.line, [""]
        while self.at < len(self.text) and self.peek() != '"':
            char = self.peek()
            if char == "\\" and self.peek(1) in ('"', "\\", "$", "`", "\n"):
                self.take()
                escaped = self.take()
                if escaped != "\n":
                    chars.append(escaped)
                    continue
                parts.append(_Part("text", "".join(chars), line, quoted=True))
                line, chars = self.line, [""]
            elif char in "$`":
                parts.append(_Part("text", "".join(chars), line, quoted=True))
                parts.append(self._dollar(quoted=True))
                line, chars = self.line, [""]
            else:
                chars.append(self.take())
                if char == "\n":
                    parts.append(_Part("text", "".join(chars), line, quoted=True))
                    line, chars = self.line, [""]
        if self.peek():
            self.take()
        parts.append(_Part("text", "".join(chars), line, quoted=True))

    def _dollar(self, *, quoted: bool) -> _Part:
        line, start = self.line, self.at
        if self.take() == "`":
            self._until("`")
            return _Part("unknown", self.text[start : self.at], line, quoted)
        following = self.peek()
        if following == "(":
            if self.peek(1) == "(":
                body = self._nested("(", ")")
                return _Part("arithmetic", body[1:-1] if body.endswith(")") else body[1:], line, quoted)
            self._nested("(", ")")
            return _Part("unknown", self.text[start : self.at], line, quoted)
        if following == "{":
            return _Part("variable", self._nested("{", "}"), line, quoted)
        match = _NAME.match(self.text, self.at)
        if match:
            self.at = match.end()
            return _Part("variable", match[0], line, quoted)
        if following and following in "0123456789@*#?!$-":
            self.take()
            return _Part("unknown", self.text[start : self.at], line, quoted)
        return _Part("text", "$", line, quoted)

    def _until(self, mark: str) -> None:
        while self.at < len(self.text):
            char = self.take()
            if char == "\\" and self.peek():
                self.take()
            elif char == mark:
                return

    def _nested(self, opening: str, closing: str) -> str:
        """Take a bracketed text; return what is between the outer brackets."""
        self.take()
        start, depth = self.at, 1
        while self.at < len(self.text):
            char = self.take()
            if char == "\\" and self.peek():
                self.take()
            elif char == opening:
                depth += 1
            elif char == closing:
                depth -= 1
                if not depth:
                    return self.text[start : self.at - 1]
        return self.text[start : self.at]


# -- values

_Value = tuple[Piece, ...]


class _Interpreter:
    def __init__(self, text: str) -> None:
        self.text = text
        self.values: dict[str, _Value] = {}
        self.arrays: dict[str, list[_Value]] = {}
        self.exported: set[str] = set()
        self.depth = 0
        self.out = Script()
        self.size = 0
        self.work = 0

    def run(self) -> Script:
        statement: list[tuple[_Part, ...]] = []
        line = 1
        in_pipe = False
        tokens = _Lexer(self.text).tokens()
        for kind, parts, at in [*tokens, ("end", (), 0)]:
            if kind == "word":
                if not statement:
                    line = at
                statement.append(parts)
                continue
            if statement and not in_pipe:
                self.statement(statement, line)
            in_pipe = kind == "pipe"
            statement = []
        for name, value in self.values.items():
            self.out.variables[name] = (_joined(value, 1), name in self.exported)
        return self.out

    def statement(self, words: list[tuple[_Part, ...]], line: int) -> None:
        if self.size > _WORDS_IN_ALL:
            return
        while words:
            first = _literal(words[0])
            if first in _CLOSES:
                self.depth = max(0, self.depth - 1)
                words = words[1:]
            elif first in _SKIPPED:
                if first == "{":
                    self.depth += 1
                words = words[1:]
            elif first in _OPENS or first == "function":
                if first != "elif":
                    self.depth += first != "function"
                if first in ("for", "select") and len(words) > 1:
                    name = _literal(words[1])
                    self.values[name] = (Piece(f"${name}", line, line, known=False, sure=False),)
                    return
                if first in ("case", "function"):
                    return
                words = words[1:]
            else:
                break
        exports: dict[str, Word] = {}
        while words and (match := _ASSIGN.match(_head(words[0]))):
            self.assign(words[0], match, line)
            exports[match[1]] = _joined(self.values.get(match[1], ()), line)
            words = words[1:]
        if not words:
            return
        first = _literal(words[0])
        if first in ("export", "declare", "typeset", "local", "readonly"):
            exporting = first == "export" or any(
                _literal(word).startswith("-") and "x" in _literal(word) for word in words[1:]
            )
            for word in words[1:]:
                match = _ASSIGN.match(_head(word))
                name = match[1] if match else _literal(word)
                if match:
                    self.assign(word, match, word[0].line)
                if exporting and _NAME.fullmatch(name):
                    self.exported.add(name)
            return
        if first == "unset":
            for word in words[1:]:
                self.values.pop(_literal(word), None)
                self.exported.discard(_literal(word))
            return
        found = [part for word in words for part in self.expand(word)]
        if first == "eval":
            found = found[1:]
        self.size += len(found)
        if found:
            self.out.commands.append(Command(found, line, self.depth == 0, exports))

    def assign(self, word: tuple[_Part, ...], match: re.Match[str], line: int) -> None:
        name, adds = match[1], bool(match[2])
        rest = (replace(word[0], text=word[0].text[match.end() :]), *word[1:])
        if rest[-1].kind == "array":
            items = [tuple(self.pieces(item)) for item in rest[-1].parts]
            flat = [value for item in items for value in self.split(item)]
            self.arrays[name] = [*(self.arrays.get(name, []) if adds else []), *flat][:_WORDS_IN_ALL]
            self.values[name] = self.arrays[name][0] if self.arrays[name] else ()
            return
        value = tuple(self.pieces(rest))
        if self.depth:
            value = tuple(replace(piece, sure=False) for piece in value)
        value = (*(self.values.get(name, ()) if adds else ()), *value)
        if len(value) <= _PIECES and sum(len(piece.text) for piece in value) <= _LONGEST:
            # Quoted or not, what a variable holds is split where it is used.
            self.values[name] = tuple(replace(piece, split=False) for piece in value if piece.text)

    def pieces(self, parts: Sequence[_Part]) -> list[Piece]:
        """Return a word's parts with their variables filled in."""
        out: list[Piece] = []
        size = 0
        for part in parts:
            if part.kind == "text":
                out.append(Piece(part.text, part.line, part.line))
            elif part.kind == "variable":
                value = self.variable(part)
                size += sum(len(piece.text) for piece in value)
                if size > _LONGEST:
                    break
                out.extend(value)
            elif part.kind == "arithmetic":
                out.append(self.arithmetic(part))
            elif part.kind == "unknown":
                out.append(Piece(part.text, part.line, part.line, known=False, sure=False))
        return out

    def variable(self, part: _Part) -> _Value:
        name, default = part.text, None
        if not _NAME.fullmatch(name):
            match = _DEFAULT.match(name)
            array = _ARRAY.match(name)
            if array and array[1] in self.arrays:
                return self._array(array[1], part)
            if match is None:
                return (Piece("${" + name + "}", part.line, part.line, known=False, sure=False),)
            name, default = match[1], match[3]
        value = self.values.get(name)
        if value is None and default is not None:
            text = default.strip("\"'")
            known = "$" not in text and "`" not in text
            if not known and (inner := re.fullmatch(r"\$\{?(\w+)\}?", text)) and inner[1] in self.values:
                value = self.values[inner[1]]
            else:
                return (Piece(text, part.line, part.line, known=known, sure=False, split=not part.quoted),)
        if value is None:
            return (Piece("$" + name, part.line, part.line, known=False, sure=False),)
        self.work += len(value)
        if self.work > _PIECES_IN_ALL:
            return (Piece("$" + name, part.line, part.line, known=False, sure=False),)
        whole = "".join(piece.text for piece in value)
        if re.search(r"\s", whole):
            return tuple(replace(piece, split=not part.quoted) for piece in value)
        # One plain value: it is used here, and was written there.
        return tuple(replace(piece, line=part.line, split=not part.quoted) for piece in value)

    def _array(self, name: str, part: _Part) -> _Value:
        out: list[Piece] = []
        self.work += len(self.arrays[name])
        if self.work > _PIECES_IN_ALL:
            return (Piece("${" + name + "[@]}", part.line, part.line, known=False, sure=False),)
        for item in self.arrays[name]:
            out += [*item, Piece(" ", part.line, part.line, split=True)]
        return tuple(out)

    def arithmetic(self, part: _Part) -> Piece:
        names = set(_NAME.findall(part.text))
        sure = True
        text = re.sub(r"\$\{?(\w+)\}?", r"\1", part.text)
        if len(text) > 200:
            return Piece(f"$(({part.text}))", part.line, part.line, known=False, sure=False)
        for name in sorted(names, key=len, reverse=True):
            value = self.values.get(name)
            whole = "".join(piece.text for piece in value) if value else ""
            if not value or not all(piece.known for piece in value) or not re.fullmatch(r"\s*-?\d{1,12}\s*", whole):
                return Piece(f"$(({part.text}))", part.line, part.line, known=False, sure=False)
            sure = sure and all(piece.sure for piece in value)
            text = re.sub(rf"\b{name}\b", whole.strip(), text)
        result = calculate(text)
        if result is None:
            return Piece(f"$(({part.text}))", part.line, part.line, known=False, sure=False)
        return Piece(str(result), part.line, part.line, sure=sure)

    def expand(self, word: tuple[_Part, ...]) -> list[Word]:
        """Return the words that one word of the script becomes."""
        return [_joined(pieces, word[0].line) for pieces in self.split(self.pieces(word))]

    def split(self, pieces: Sequence[Piece]) -> list[_Value]:
        """Split where unquoted variables brought blanks."""
        out: list[_Value] = []
        current: list[Piece] = []
        for piece in pieces:
            if not piece.split or not re.search(r"\s", piece.text):
                current.append(piece)
                continue
            for index, text in enumerate(re.split(r"\s+", piece.text)):
                if index and current:
                    out.append(tuple(current))
                    current = []
                if text:
                    current.append(replace(piece, text=text))
        if current:
            out.append(tuple(current))
        return out


def _head(word: tuple[_Part, ...]) -> str:
    return word[0].text if word and word[0].kind == "text" and not word[0].quoted else ""


def _literal(word: tuple[_Part, ...]) -> str:
    return word[0].text if len(word) == 1 and word[0].kind == "text" else ""


def _joined(pieces: Sequence[Piece], line: int) -> Word:
    if not pieces:
        return Word("", line, line)
    filled = [piece for piece in pieces if piece.text] or list(pieces[:1])
    origin = filled[0].origin if len(filled) == 1 else filled[0].line
    return Word(
        "".join(piece.text for piece in pieces),
        filled[0].line,
        origin,
        all(piece.known for piece in pieces),
        all(piece.sure for piece in pieces),
    )


_OPERATORS: dict[type, Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.floordiv,
    ast.Mod: operator.mod,
}


def calculate(text: str) -> int | None:
    """Return the value of an integer expression, None where it is none or cannot be computed."""
    try:
        return _value(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError, ZeroDivisionError, RecursionError, MemoryError):
        return None


def _value(node: ast.expr) -> int:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_value(node.operand)
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        return _OPERATORS[type(node.op)](_value(node.left), _value(node.right))
    raise ValueError("no integer expression")
