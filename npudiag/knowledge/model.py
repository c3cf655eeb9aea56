"""What is known about a code, as typed data."""

from __future__ import annotations

import msgspec

from npudiag.engine.model import Text
from npudiag.result import Severity, Trust


class Advice(msgspec.Struct, frozen=True, kw_only=True):
    """What many codes have in common.

    Attributes:
        causes: Typical causes.
        look: What to look at next.
        do: What to do.
    """

    causes: Text
    look: Text
    do: Text


class Family(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of codes: who prints them and what they are about.

    Attributes:
        id: Short name such as ``EI``, ``acl-507`` or ``event``.
        title: Whose codes they are.
        means: What a code of this family says, whichever it is.
        severity: How grave an unknown code of the family is.
        advice: Name of the advice for an unknown code of the family.
    """

    id: str
    title: Text
    means: Text
    severity: Severity
    advice: str


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """What is known about one code.

    Attributes:
        code: The code as it is printed.
        family: Id of its family.
        symbol: Its name in the vendor's headers; empty where it has none.
        severity: How grave it is.
        trust: How much the code says by itself, as in rules: ``cause`` ``specific`` ``generic`` ``envelope``.
        means: What it means, in one or two sentences.
        advice: Name of its advice.
        details: What it is made of, for codes that hold several facts (error registers, device events).
    """

    code: str
    family: str
    symbol: str = ""
    severity: Severity
    trust: Trust = "specific"
    means: Text
    advice: str
    details: tuple[Text, ...] = ()


class KnownBy(msgspec.Struct, frozen=True, kw_only=True):
    """A rule that looks for a code or says what was asked for."""

    code: str
    name: str
    title: Text
    severity: Severity


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What there is to say about one code.

    Attributes:
        query: What was asked.
        entries: What it can mean; several where one number is used by several parties.
        family: The family it belongs to; None: not recognised as a code.
        nearest: Known codes close to an unknown one.
        rules: Rules that look for it.
    """

    query: str
    entries: tuple[Entry, ...] = ()
    family: Family | None = None
    nearest: tuple[Entry, ...] = ()
    rules: tuple[KnownBy, ...] = ()
