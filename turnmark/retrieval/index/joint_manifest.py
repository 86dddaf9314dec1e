"""What several indexes that are searched together have in common, and whether they can be."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence

from turnmark.core.errors import RequestError
from turnmark.retrieval.search.rebuild_commands import build_command, spec_of_components
from turnmark.retrieval.storage.manifest import Manifest, RankerWeight


def check_comparable(manifests: Sequence[Manifest]) -> None:
    """Raise RequestError for indexes whose scores cannot be compared with those of the first."""
    first = manifests[0]
    problems = []
    for manifest in manifests[1:]:
        if manifest.embedder != first.embedder:
            differs = f"has {_made_with(manifest)}, and {first.name!r} has {_made_with(first)}"
        elif _weighting(manifest) != _weighting(first):
            differs = f"has the BM25 settings {_weighting(manifest)}, and {first.name!r} has {_weighting(first)}"
        else:
            continue
        wanted = manifest.model_copy(update={"embedder": first.embedder, "bm25": first.bm25})
        problems.append(
            f"index {manifest.name!r} {differs}; to search them together, build it again: "
            f"{build_command(wanted, spec_of_components(first))}"
        )
    if problems:
        raise RequestError(problems)


def _joint_languages(manifests: Sequence[Manifest]) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for manifest in manifests:
        counts.update(manifest.languages)
    return dict(counts.most_common())


def _joint_weights(manifests: Sequence[Manifest]) -> dict[str, RankerWeight]:
    """Return the lowest weight of each ranker: its list ranks the passages of all indexes at once."""
    weights: dict[str, RankerWeight] = {}
    for manifest in manifests:
        for name, weight in manifest.weights.items():
            if name not in weights or weight.share < weights[name].share:
                weights[name] = weight
    return weights


def _made_with(manifest: Manifest) -> str:
    info = manifest.embedder
    return f"the embedder {info.spec!r} ({info.fingerprint})" if info else "no embedder (built for BM25 only)"


def _weighting(manifest: Manifest) -> str:
    """Return the settings on which the scores of terms depend. Languages may differ, because each language has its own
    terms."""
    return f"k1={manifest.bm25.k1}, b={manifest.bm25.b}"


def joint_manifest(manifests: Sequence[Manifest]) -> Manifest:
    """Return a manifest of what several indexes have in common.

    Indexes that were built for different retrievers are searched by default with the components that all of them have.
    """
    first = manifests[0]
    same_retriever = all(manifest.retriever == first.retriever for manifest in manifests)
    levels = [manifest.sure_from for manifest in manifests if manifest.sure_from is not None]
    return first.model_copy(
        update={
            "name": ",".join(manifest.name for manifest in manifests),
            "documents": sum(manifest.documents for manifest in manifests),
            "passages": sum(manifest.passages for manifest in manifests),
            "languages": _joint_languages(manifests),
            "weights": _joint_weights(manifests),
            "skipped": sum(manifest.skipped for manifest in manifests),
            "digest": hashlib.sha256("\n".join(manifest.digest for manifest in manifests).encode()).hexdigest(),
            "splade": first.splade if all(manifest.splade == first.splade for manifest in manifests) else None,
            "tokens": all(manifest.tokens for manifest in manifests),
            "pending": sum(manifest.pending for manifest in manifests),
            "retriever": first.retriever if same_retriever else "",
            "server": first.server if all(manifest.server == first.server for manifest in manifests) else None,
            "described": None,  # each index has pictures of its own
            "sure_from": max(levels, default=None),
            "created": max(manifest.created for manifest in manifests),
        }
    )
