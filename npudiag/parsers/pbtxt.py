"""Triton's ``config.pbtxt``: protobuf text format, read into dotted keys.

The reader takes what the text format allows (fields with or without a colon, messages in braces or angles, lists,
comments, joined strings) and goes on behind what it does not understand. It knows no schema: which fields exist is
for the checks to say.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from npudiag.parsers.base import Context, Partial, Stream
from npudiag.parsers.launch import config_row, decode, keep, take

_TOKEN = re.compile(
    r"(?P<skip>\s+|\#[^\n]*)|(?P<text>\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*')"
    r"|(?P<word>[-+]?[A-Za-z0-9_.][\w.+/-]*|\[[A-Za-z][\w./]*\.[\w./]+\])|(?P<sign>[{}<>\[\]:,;])|(?P<other>.)",
    re.DOTALL,
)
_MARKS = re.compile(rb"(?m)^\s*(?:max_batch_size|instance_group|dynamic_batching|backend|platform|input|output)\b")
_GRAPH = re.compile(rb"(?m)^\s*(?:node|graph_def|layer)\s*\{")
_DEEPEST = 24
_TOKENS = 60_000
_OPENS = {"{": "}", "<": ">"}


class _Token(NamedTuple):
    kind: str
    text: str
    line: int


def _tokens(text: str) -> list[_Token]:
    out: list[_Token] = []
    line = 1
    for match in _TOKEN.finditer(text):
        kind, found = match.lastgroup or "other", match[0]
        if kind not in ("skip", "other"):
            out.append(_Token(kind, found[1:-1] if kind == "text" else found, line))
            if len(out) >= _TOKENS:
                break
        line += found.count("\n")
    return out


class _Reader:
    """Reads fields; a repeated one is numbered, so that what belongs together shares its path."""

    def __init__(self, tokens: list[_Token]) -> None:
        self.tokens = tokens
        self.at = 0

    def peek(self) -> str:
        """Return the sign or the word ahead, empty at the end."""
        return self.tokens[self.at].text if self.at < len(self.tokens) else ""

    def sign(self, *signs: str) -> bool:
        """Step over one of `signs`, where it is next."""
        token = self.tokens[self.at] if self.at < len(self.tokens) else None
        if token is not None and token.kind == "sign" and token.text in signs:
            self.at += 1
            return True
        return False

    def fields(self, path: str, depth: int, closing: str) -> Iterator[tuple[str, str, int]]:
        """Yield path, value and line of every scalar up to `closing`."""
        counts: dict[str, int] = {}
        while self.at < len(self.tokens):
            if closing and self.sign(closing):
                return
            token = self.tokens[self.at]
            self.at += 1
            if token.kind != "word":
                continue
            name = f"{path}.{token.text}" if path else token.text
            self.sign(":")
            yield from self.value(name, counts, depth, token.line)

    def value(self, name: str, counts: dict[str, int], depth: int, line: int) -> Iterator[tuple[str, str, int]]:
        """Yield what stands behind a field's name."""
        if self.sign("["):
            scalars: list[str] = []
            at = self.tokens[self.at].line if self.at < len(self.tokens) else line
            while self.at < len(self.tokens) and not self.sign("]"):
                if self.peek() in _OPENS and self.tokens[self.at].kind == "sign":
                    yield from self.message(name, counts, depth)
                elif not self.sign(","):
                    scalars.append(self.tokens[self.at].text)
                    self.at += 1
            if scalars:
                yield name, ",".join(scalars), at
        elif self.at < len(self.tokens) and self.tokens[self.at].kind == "sign" and self.peek() in _OPENS:
            yield from self.message(name, counts, depth)
        elif self.at < len(self.tokens) and self.tokens[self.at].kind in ("word", "text"):
            first = self.tokens[self.at]
            self.at += 1
            text = first.text
            while first.kind == "text" and self.at < len(self.tokens) and self.tokens[self.at].kind == "text":
                text += self.tokens[self.at].text
                self.at += 1
            yield name, text, first.line
        self.sign(",", ";")

    def message(self, name: str, counts: dict[str, int], depth: int) -> Iterator[tuple[str, str, int]]:
        """Yield the fields of a message in brackets; an empty one is a value of its own."""
        token = self.tokens[self.at]
        self.at += 1
        number = counts.get(name, 0)
        counts[name] = number + 1
        path = f"{name}.{number}"
        if depth >= _DEEPEST:
            return
        empty = True
        for row in self.fields(path, depth + 1, _OPENS[token.text]):
            empty = False
            yield row
        if empty:
            yield path, "", token.line


def read_text_format(text: str) -> Iterator[tuple[str, str, int]]:
    """Yield dotted path, value and line of every scalar of a message in text format.

    Messages are numbered from 0 by field: ``instance_group.0.kind``.
    """
    yield from _Reader(_tokens(text)).fields("", 0, "")


class TritonConfig:
    """Reads model configurations of Triton."""

    name = "triton-config"

    def recognise(self, head: bytes, path: str) -> float:
        """By suffix and the fields that a model configuration has; graphs have the same suffix."""
        if PurePosixPath(path.rpartition("!")[2]).suffix.lower() != ".pbtxt" or b"\0" in head[:4096]:
            return 0.0
        return 0.9 if _MARKS.search(head[: 64 << 10]) and not _GRAPH.search(head[: 64 << 10]) else 0.0

    def parse(self, stream: Stream, head: bytes, context: Context) -> Partial:
        """Read the stream to its end."""
        partial = Partial(context.source, kind=self.name, identity=context.source.identity)
        text = decode(take(stream, head, partial), partial)
        keep(partial, self._rows(text), text)
        return partial

    @staticmethod
    def _rows(text: str) -> Iterator[dict[str, Any]]:
        for key, value, line in read_text_format(text):
            yield {**config_row(key, value, line), "entry": "config.pbtxt"}
