"""Spec strings (`name[:argument][@url][?option=value&…]`), and the registries that say what a name stands for.

Each role (retrievers, embedders, generators …) has one table from names to `package.module:attribute`. A module is
imported only when its name is used, so listing names is fast. Third parties add names through entry points.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, unquote

from turnmark.core.errors import RequestError, unknown_name
from turnmark.core.extras import require_extra

_NAME = re.compile(r"^[a-z][a-z0-9-]*")
# Up to the last "@", since a password may contain any character.
_CREDENTIALS = re.compile(r"(?<=://).*(?=@)", re.DOTALL)


@dataclass(frozen=True)
class Spec:
    """A parsed spec. `str()` returns it in normal form, with sorted options, as manifests record it."""

    name: str
    argument: str = ""
    url: str = ""
    options: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        text = self.name
        if self.name.endswith(("+http", "+https")):
            text += self.url.removeprefix(self.name.rsplit("+", 1)[1])
        else:
            text += f":{self.argument}" if self.argument else ""
            text += f"@{self.url}" if self.url else ""
        if self.options:
            pairs = (f"{quote(k, safe='')}={quote(v, safe=':/+.,-')}" for k, v in sorted(self.options.items()))
            text += "?" + "&".join(pairs)
        return text


def parse_spec(text: str) -> Spec:
    """Parse a spec string.

    >>> parse_spec("openai:gpt-4o@http://localhost:8000/v1?temperature=0")
    Spec(name='openai', argument='gpt-4o', url='http://localhost:8000/v1', options={'temperature': '0'})
    """
    # Spaces at the end of an option stay: a prompt may end in one.
    head, _, query = text.strip("\r\n").partition("?")
    head = head.strip()
    options: dict[str, str] = {}
    redacted = _CREDENTIALS.sub("***", text)
    for piece in filter(None, query.split("&")):
        key, equals, value = piece.partition("=")
        # If the text contains a password, each piece may be a part of it.
        described = repr(piece) if redacted == text else "a part after '?'"
        if not key or not equals:
            raise RequestError(f"spec {redacted!r}: {described} is not an option; write option=value, joined by '&'")
        if unquote(key) in options:
            raise RequestError(f"spec {redacted!r}: {described} sets an option twice")
        options[unquote(key)] = unquote(value)
    served = re.match(r"^([a-z][a-z0-9-]*)\+(https?)://(.+)$", head)
    if served:
        name, scheme, remainder = served.groups()
        return Spec(f"{name}+{scheme}", "", f"{scheme}://{remainder}", options)
    match = _NAME.match(head)
    if not match or head[match.end() : match.end() + 1] not in ("", ":", "@"):
        raise RequestError(f"spec {redacted!r}: a name in lower case, then ':argument', '@url' or '?option=value'")
    remainder, url = head[match.end() :], ""
    address = re.search(r"@(?=https?://)", remainder)
    if address:
        remainder, url = remainder[: address.start()], remainder[address.end() :]
    elif remainder.startswith("@") or _looks_like_address(match.group(), remainder):
        # Without this, a question meant for a server of one's own would go to the provider's.
        raise RequestError(
            f"spec {redacted!r}: an address needs http:// or https:// after '@', "
            f"e.g. {match.group()}:MODEL@http://localhost:8000/v1"
        )
    return Spec(match.group(), remainder.removeprefix(":"), url, options)


_PATHS = frozenset(("bertscore", "llama-index", "local", "python", "replay"))
"""Names whose argument is a path or an import, in which '@' has no meaning."""
_VERSION = re.compile(r"v?[0-9]+(?:[.-][0-9]+){0,2}|latest|default|stable")
"""What may follow '@' in the name of a model, e.g. `claude-3-5-sonnet@20240620`."""


def _looks_like_address(name: str, remainder: str) -> bool:
    """Return whether an argument ends in '@' and something that is not the version of a model."""
    before, at, after = remainder.rpartition("@")
    is_path = name in _PATHS or before.startswith((":/", ":.", ":~"))
    return bool(at) and not is_path and not _VERSION.fullmatch(after)


@dataclass(frozen=True)
class Entry:
    """One name of a registry: the import path of its factory, a one-sentence summary, and the extra it needs."""

    target: str
    summary: str
    extra: str = ""


class Registry:
    """The names of one role: the built-in ones, and those that third parties add through entry points of `group`.

    A factory is called as `factory(spec, **arguments of the role)`.

    Args:
        example: what to write for a name without an argument that is unknown, with the name for `{0}`.
    """

    def __init__(self, role: str, entries: Mapping[str, Entry], group: str = "", example: str = "") -> None:
        self.role = role
        self._example = example
        self._entries = dict(entries)
        self._group = group

    def entries(self) -> dict[str, Entry]:
        """Return every name, the built-in ones first; an entry point cannot replace a built-in name."""
        entries = dict(self._entries)
        if self._group:
            for point in importlib.metadata.entry_points(group=self._group):
                package = point.dist.name if point.dist else "an entry point"
                entries.setdefault(point.name, Entry(point.value, f"from {package}"))
        return entries

    def check(self, text: str) -> Spec:
        """Parse `text`; check that its name is in the registry and that its extra is installed. Nothing is imported."""
        spec = parse_spec(text)
        names = self.entries()
        if spec.name not in names:
            is_bare = self._example and text == spec.name
            example = f"; write {self._example.format(text)}" if is_bare else ""
            raise RequestError(unknown_name(self.role, spec.name, sorted(names)) + example)
        extra = names[spec.name].extra
        if extra:
            require_extra(extra, f"{self.role} {spec.name!r}")
        return spec

    def factory(self, spec: Spec) -> Callable[..., Any]:
        """Import and return the object that the spec's name stands for."""
        module, _, attribute = self.entries()[spec.name].target.partition(":")
        factory: Callable[..., Any] = getattr(importlib.import_module(module), attribute)
        return factory


def check_options(spec: Spec, converters: Mapping[str, Callable[[str], Any]], role: str) -> dict[str, Any]:
    """Convert the options of a spec; report all mistakes at once. A converter raises ValueError for a wrong value."""
    values, problems = {}, []
    for key, text in spec.options.items():
        if key not in converters:
            valid = ", ".join(sorted(converters)) or "none"
            problems.append(f"{role} {spec.name!r} has no option {key!r}; it has: {valid}")
            continue
        try:
            values[key] = converters[key](text)
        except (ValueError, RequestError) as error:
            problems.append(f"{role} {spec.name!r}, option {key}={text!r}: {error}")
    if problems:
        raise RequestError(problems)
    return values


def one_of(*names: str) -> Callable[[str], str]:
    """Return a converter for an option whose value is one of these names."""

    def convert(text: str) -> str:
        if text not in names:
            raise ValueError(f"{', '.join(names[:-1])} or {names[-1]}")
        return text

    return convert


def up_to(limit: float) -> Callable[[str], float]:
    """Return a converter for an option whose value is a number from 0 to a limit."""

    def convert(text: str) -> float:
        value = float(text)
        if not 0 <= value <= limit:
            raise ValueError(f"a number from 0 to {limit:g}")
        return value

    return convert


def load_python(argument: str, role: str) -> Callable[..., Any]:
    """Import and return the object that `pkg.mod:factory` names, for specs such as `python:pkg.mod:factory`."""
    module, colon, attribute = argument.rpartition(":")
    if not colon or not module or not attribute:
        raise RequestError(f"{role} {argument!r}: write package.module:factory")
    try:
        factory: Callable[..., Any] = getattr(importlib.import_module(module), attribute)
    except ImportError as error:
        raise RequestError(f"{role} {argument!r}: {module} cannot be imported ({error})") from error
    except AttributeError as error:
        raise RequestError(f"{role} {argument!r}: {module} has no {attribute!r}") from error
    return factory
