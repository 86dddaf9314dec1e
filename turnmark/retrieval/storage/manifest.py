"""The manifest of an index, which is written last, and the settings of a build."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from pydantic import Field, ValidationError

from turnmark.core.errors import TurnmarkError
from turnmark.core.record import Record
from turnmark.corpora.text.languages import AUTO, ENGLISH, language_name
from turnmark.retrieval.ranking.bm25 import BM25Settings
from turnmark.retrieval.storage.server_addresses import ServerLocation

FORMAT = 6
MIN_TRUSTED_SHARE = 0.5
"""Minimum share of an embedder's usual weight at which its cosines say whether a passage is about the question."""


ORIGIN_FIELDS = {
    "created", "version", "source", "include", "exclude", "skipped", "unread", "unread_files", "left_out", "internal",
    "retriever",
}  # fmt: skip
"""Fields of a manifest that may differ between two builds of the same content."""


class ModelInfo(Record):
    """The model of an index component. `dimension`: of its vectors; for a sparse encoder, the number of terms."""

    spec: str
    fingerprint: str
    dimension: int


class RankerWeight(Record):
    """How well a ranker finds the passages of its index, and its weight (`turnmark.retrieval.search.list_weights`)."""

    share: float = Field(description="share of its usual weight in a fusion, 0..1")
    mrr: float = Field(description="mean reciprocal rank of passages, searched with a sentence left out of them")
    n: int = Field(description="number of passages searched for")


class DescriberInfo(Record):
    """The model that described the pictures of an index."""

    spec: str = Field(description="its spec; later builds describe new pictures with it")
    fingerprint: str = Field(description="differs if the model or its prompt does")
    pictures: int = Field(description="number of descriptions in the passages")
    digest: str = Field(description="SHA-256 of the list of pictures")


class Manifest(Record):
    """`manifest.json` of an index: its source, content, models and settings."""

    format: int = FORMAT
    name: str
    generation: int
    revision: int = Field(default=0, description="number of the state that a build published")
    source: str
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    documents: int
    passages: int
    digest: str
    chunk_size: int
    passage_tokens: int | None = Field(
        default=None, description="maximum tokens of a passage given to the build, or None for the default"
    )
    bm25: BM25Settings
    languages: dict[str, int] = Field(
        default={}, description="language of the documents -> number of its passages, most frequent first"
    )
    embedder: ModelInfo | None
    splade: ModelInfo | None = None
    tokens: bool = Field(default=False, description="whether the index has the embedder's token vectors")
    pending: int = Field(default=0, description="number of passages that have no vectors yet")
    retriever: str = Field(
        default="", description="spec given to the build, which searches by default; empty if none was given"
    )
    tables: str = Field(default="", description="fingerprint of the stored tables; empty if there are none")
    tables_version: int = Field(default=5, description="version of the file with the stored tables")
    server: ServerLocation | None = Field(
        default=None, description="server with a part of the index, or None for local files"
    )
    sure_from: float | None = Field(
        default=None, description="minimum confidence of a sure answer without a model, or None if it is not known"
    )
    changed_since: int = Field(
        default=0, description="number of passages added or removed since `weights` and `sure_from` were measured"
    )
    weights: dict[str, RankerWeight] = Field(
        default={}, description="ranker -> how well it finds this index's passages; empty if it is not measured"
    )
    described: DescriberInfo | None = Field(
        default=None, description="the model that described pictures, or None if they were not described"
    )
    skipped: int = 0
    unread: dict[str, int] = Field(default={}, description="number of files of types that are not read, by suffix")
    unread_files: tuple[str, ...] = Field(default=(), description="the first of these files, relative to the source")
    left_out: dict[str, int] = Field(
        default={}, description="what the readers left out of the files that they read: reason -> count"
    )
    internal: bool = Field(default=False, description="whether the index is of a benchmark's corpus, hidden from lists")
    created: str
    version: str

    def models(self) -> dict[str, ModelInfo]:
        """Return field -> model, for the models of the index."""
        named = {"embedder": self.embedder, "splade": self.splade}
        return {name: info for name, info in named.items() if info}

    def share_of(self, ranker: str) -> float:
        """Return the share of its usual weight that a ranker has in a fusion, or 1 if it was not measured."""
        return self.weights[ranker].share if ranker in self.weights else 1.0

    @property
    def searches_by_words(self) -> bool:
        """Whether so few passages have vectors yet that the index is searched by words alone."""
        return 2 * self.pending > self.passages

    def trusts_cosines(self) -> bool:
        """Return whether decisions may rest on the embedder's cosines: it reads the language of the documents."""
        reads = self.embedder is not None and self.share_of("dense") >= MIN_TRUSTED_SHARE
        return reads and not self.searches_by_words

    def fingerprint(self) -> str:
        """Return a text that changes whenever a passage, a stored table, the BM25 settings or a model change."""
        made_by = self.embedder.fingerprint if self.embedder else "no vectors"
        others = "".join(f"|{info.fingerprint}" for name, info in self.models().items() if name != "embedder")
        tables = f"|{self.tables}" if self.tables else ""
        return f"{self.digest}|{self._analysis().model_dump_json()}|{made_by}{others}{tables}"

    def checksum(self) -> str:
        """Return the SHA-256 of the fields on which the files depend."""
        fixed = self.model_dump_json(exclude={*ORIGIN_FIELDS, "server", "name"}, exclude_defaults=True)
        return hashlib.sha256(fixed.encode()).hexdigest()

    def _analysis(self) -> BM25Settings:
        """Return the BM25 settings with the languages that were detected, since the terms depend on them."""
        if self.bm25.language != AUTO:
            return self.bm25
        languages = sorted(self.languages) or [ENGLISH]
        return self.bm25.model_copy(update={"language": "+".join(language_name(code).lower() for code in languages)})


def read_manifest(folder: Path) -> Manifest | None:
    """Read the manifest of a finished index, or return None if there is none.

    Raises:
        TurnmarkError: it cannot be read.
    """
    path = folder / "manifest.json"
    if not path.is_file():
        return None
    try:
        fields = json.loads(path.read_text(encoding="utf-8"))
        if fields["format"] != FORMAT:  # what is left out of an earlier version only says how it was stored
            fields = {name: value for name, value in fields.items() if name in Manifest.model_fields}
        return Manifest.model_validate(fields)
    except (OSError, ValueError, KeyError, TypeError, ValidationError) as error:
        raise TurnmarkError(
            f"{path} cannot be read ({type(error).__name__}); build the index again: "
            f"turnmark index remove {folder.name}, then turnmark index build SOURCE --name {folder.name}"
        ) from error


class BuildSettings(Record):
    """The settings of an index that follow from a retriever spec. Empty `embedder`, `splade`: not in the index."""

    bm25: BM25Settings
    embedder: str = ""
    splade: str = ""
    tokens: bool = Field(default=False, description="whether to store token vectors, for late interaction")
    server: ServerLocation | None = None

    def models(self) -> dict[str, str]:
        """Return field of the manifest -> spec of the model."""
        named = {"embedder": self.embedder, "splade": self.splade}
        return {name: spec for name, spec in named.items() if spec}
