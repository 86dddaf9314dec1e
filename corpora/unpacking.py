"""A repository that somebody downloaded as a zip file: the wanted files of it, and nothing that is not plain."""

from __future__ import annotations

import re
import stat
import zipfile
from pathlib import Path

from corpora.archives import readable
from corpora.catalog import Entry, Origin
from corpora.downloading import unsafe
from corpora.errors import Mistakes, RequestError
from corpora.upstream import matching, shortfalls

MAX_MEMBERS = 100_000
SHOWN = 20


def unpack(archive: Path, entry: Entry, folder: Path) -> tuple[list[str], str, list[str]]:
    """Unpack the files of a benchmark from a zip file into `folder`; the single folder on top of all is taken off.

    The whole archive is refused when any member is not a plain file inside it: what has one `../` has more to hide.

    Returns:
        The paths that were written, the commit that the archive names as its comment (GitHub's do; else empty), notes.

    Raises:
        RequestError: the archive is damaged, unsafe or too large, or lacks what the benchmark needs.
    """
    if len(entry.origins) != 1:
        names = " and ".join(origin.page for origin in entry.origins)
        raise RequestError(f"{entry.name}: it comes from {names}; put their files into one folder and use that")
    with readable(archive), zipfile.ZipFile(archive) as opened:
        members = _safe(archive, opened)
        chosen, notes = _chosen(archive, members, entry)
        for path, member in chosen.items():
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            _write(archive, opened, member, target)
        comment = opened.comment.decode("ascii", "replace").strip()
    return list(chosen), comment if re.fullmatch(r"[0-9a-f]{40}", comment) else "", notes


def _safe(archive: Path, opened: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    """The members by path, folders left out."""
    if len(opened.infolist()) > MAX_MEMBERS:
        raise RequestError(f"{archive}: {len(opened.infolist()):,} members; at most {MAX_MEMBERS:,} are looked at")
    found: dict[str, zipfile.ZipInfo] = {}
    wrong: list[str] = []
    for member in opened.infolist():
        # orig_filename is what the archive says; zipfile has changed the other already.
        name = member.orig_filename
        kind = stat.S_IFMT(member.external_attr >> 16)
        if why := unsafe(name.removesuffix("/")):
            wrong.append(f"{archive}: the member {name!r} {why}")
        elif kind not in (0, stat.S_IFREG, stat.S_IFDIR):
            wrong.append(f"{archive}: the member {name!r} is a link or a device, not a file")
        elif name in found:
            wrong.append(f"{archive}: the member {name!r} is there twice")
        elif not name.endswith("/"):
            found[name] = member
    if wrong:
        rest = [f"{archive}: {len(wrong) - SHOWN} more members like these"] if len(wrong) > SHOWN else []
        raise RequestError([*wrong[:SHOWN], *rest, f"{archive}: nothing of it was unpacked"])
    return found


def _chosen(
    archive: Path, members: dict[str, zipfile.ZipInfo], entry: Entry
) -> tuple[dict[str, zipfile.ZipInfo], list[str]]:
    tops = {name.partition("/")[0] for name in members}
    top = f"{tops.pop()}/" if len(tops) == 1 and all("/" in name for name in members) else ""
    origin = entry.origins[0]
    # A zip of the folder `data` alone has that for its single folder on top.
    for cut in (top, "") if top else ("",):
        chosen = {
            name.removeprefix(cut): member
            for name, member in members.items()
            if matching(origin.wanted, name.removeprefix(cut))
        }
        if chosen:
            break
    return chosen, _measured(archive, chosen, entry, origin)


def _measured(archive: Path, chosen: dict[str, zipfile.ZipInfo], entry: Entry, origin: Origin) -> list[str]:
    """What is missing of the benchmark; an error for what is too large, encrypted, or needed and not there."""
    mistakes = Mistakes()
    for path, member in chosen.items():
        item = matching(origin.wanted, path)
        if item is not None and member.file_size > item.limit:
            mistakes.add(
                f"{archive}: {path} would have {member.file_size:,} bytes; at most {item.limit:,} are unpacked"
            )
        if member.flag_bits & 1:
            mistakes.add(f"{archive}: {path} is encrypted")
    if (whole := sum(member.file_size for member in chosen.values())) > entry.limit:
        mistakes.add(f"{archive}: {whole:,} bytes in all; at most {entry.limit:,} are unpacked")
    mistakes.check()
    if not chosen:
        raise RequestError(f"{archive}: holds no file of {entry.name}; expected an archive of {origin.page}")
    return _part_of_it(origin, chosen)


def _part_of_it(origin: Origin, chosen: dict[str, zipfile.ZipInfo]) -> list[str]:
    """What an archive lacks: a note each, also for what a download would need, since part of a clone is of use too."""
    eased = origin.model_copy(
        update={"wanted": tuple(item.model_copy(update={"required": False}) for item in origin.wanted)}
    )
    return shortfalls(eased, chosen)


def _write(archive: Path, opened: zipfile.ZipFile, member: zipfile.ZipInfo, target: Path) -> None:
    """One member; reading stops at the size that it declares, and a false one is found by its CRC."""
    left = member.file_size
    with opened.open(member) as source, open(target, "wb") as copy:
        while block := source.read(min(1 << 20, left + 1)):
            left -= len(block)
            if left < 0:
                raise RequestError(f"{archive}: {member.orig_filename!r} unpacks to more than it declares; refused")
            copy.write(block)
    if left:
        raise RequestError(f"{archive}: {member.orig_filename!r} unpacks to less than it declares; refused")
