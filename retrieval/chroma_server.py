"""A Chroma server in place of Chroma's files: `chroma+http(s)://HOST:PORT[?collection=NAME]`.

Passages and BM25 stay in the index's folder, the vectors are a collection on the server, searched as `hybrid` does.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from corpora.errors import RequestError, TurnwiseError
from corpora.specs import Spec
from retrieval.outside import address, told
from retrieval.served import Served

if TYPE_CHECKING:
    from retrieval.index import Index
    from retrieval.registry import BuildSettings
    from retrieval.types import Retriever

TOKEN = "TURNWISE_CHROMA_TOKEN"
PORT = 8000

SECONDS = 60.0
TRIES, FIRST_WAIT, LONGEST_WAIT = 4, 0.2, 2.0

T = TypeVar("T")


def asked(url: str, call: Callable[[], T]) -> T:
    """What a call to the server gives, tried again while the connection fails. Calls must be safe to repeat.

    Raises:
        TurnwiseError: the server cannot be reached, refuses the token, lacks what is asked for, or fails.
    """
    import httpx
    from chromadb.errors import AuthorizationError, ChromaAuthError, NotFoundError
    from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_exponential

    retrying = Retrying(
        retry=retry_if_exception_type(httpx.TransportError),
        stop=stop_after_attempt(TRIES),
        wait=wait_exponential(FIRST_WAIT, LONGEST_WAIT),
        reraise=True,
    )
    try:
        return retrying(call)
    except TurnwiseError:
        raise
    except httpx.TransportError as error:
        raise TurnwiseError(
            f"the Chroma server at {url} cannot be reached ({TRIES} tries): {told(error)}; start it, or wait for it"
        ) from None
    except (AuthorizationError, ChromaAuthError):
        raise TurnwiseError(f"the Chroma server at {url} refuses the request; set {TOKEN} in the environment") from None
    except NotFoundError as error:
        raise TurnwiseError(
            f"the Chroma server at {url} lacks something: {told(error)}; build the index again"
        ) from None
    except Exception as error:  # its client raises a plain Exception for whatever answer it does not know
        if "401" in (said := told(error)) or "403" in said:
            said += f"; set {TOKEN} in the environment"
        raise TurnwiseError(f"the Chroma server at {url} failed: {said}") from None


def connect(url: str) -> Any:
    """A client for the server at `url`, which is asked for its heartbeat first.

    Raises:
        TurnwiseError: it does not answer as a Chroma server does; see `asked`.
    """
    import chromadb
    from chromadb.config import Settings

    settings = Settings(anonymized_telemetry=False)
    if token := os.environ.get(TOKEN):
        settings.chroma_client_auth_provider = "chromadb.auth.token_authn.TokenAuthClientProvider"
        settings.chroma_client_auth_credentials = token
        settings.chroma_auth_token_transport_header = "Authorization"
    asked(url, lambda: _heartbeat(url))
    client: Any = asked(
        url, lambda: chromadb.HttpClient(url, port=PORT, ssl=url.startswith("https:"), settings=settings)
    )
    # Chroma's client waits for ever, and has no setting for that.
    session = getattr(getattr(client, "_server", None), "_session", None)
    if session is not None:
        session.timeout = SECONDS
    return client


def _heartbeat(url: str) -> None:
    """Ask with a time limit, which Chroma's own client has not."""
    import httpx

    headers = {"Authorization": f"Bearer {token}"} if (token := os.environ.get(TOKEN)) else {}
    reply = httpx.get(f"{url}/api/v2/heartbeat", timeout=SECONDS / TRIES, headers=headers)
    if reply.status_code in (401, 403):
        raise TurnwiseError(f"the Chroma server at {url} refuses the request; set {TOKEN} in the environment")
    if not reply.is_success or "heartbeat" not in reply.text:
        raise TurnwiseError(
            f"what answers at {url} is no Chroma server of version 1 (status {reply.status_code} for its heartbeat)"
        )


def remove(place: Served) -> None:
    """Delete a collection, if it is there.

    Raises:
        TurnwiseError: see `asked`.
    """
    from chromadb.errors import NotFoundError

    client = connect(place.url)

    def delete() -> None:
        try:
            client.delete_collection(place.name)
        except NotFoundError:
            return

    try:
        asked(place.url, delete)
    finally:
        client.close()


def place_of(spec: Spec) -> Served:
    """Where a spec puts an index's vectors.

    Raises:
        RequestError: a wrong address.
    """
    where = address(spec.url, PORT, spec.name, TOKEN)
    if where.path:
        raise RequestError(f"retriever {spec.name!r}: an address ends with the port; leave {where.path!r} out")
    return Served(kind="chroma", url=where.base, name=spec.options.get("collection", ""))


def collection_name(text: str) -> str:
    """The option `collection`: the beginning of a collection's name."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{1,99}", text):
        raise ValueError("2 to 100 letters, digits, '.', '_' and '-', beginning with a letter or digit")
    return text


def _hybrid(spec: Spec) -> Spec:
    """The retriever whose index it is, but for where the vectors lie; a reranker is not its business."""
    own = {key: value for key, value in spec.options.items() if key != "collection" and not key.startswith("rerank")}
    return Spec("hybrid", options=own)


def settings_of(spec: Spec, embedder: str) -> BuildSettings:
    """What an index for the spec is built with: see `retrieval.registry.build_settings`."""
    from retrieval.registry import build_settings

    place = place_of(spec)
    return build_settings(str(_hybrid(spec)), embedder).model_copy(update={"server": place})


def open_chroma(spec: Spec, index: Index) -> Retriever:
    """`chroma+http(s)://HOST:PORT[?collection=…]`, with `hybrid`'s options.

    Raises:
        RequestError: the index's vectors lie elsewhere.
    """
    from retrieval.registry import open_hybrid

    place = place_of(spec)
    if index.manifest.server != place:
        there = index.manifest.server.url if index.manifest.server else "in its own folder"
        raise RequestError(
            f"the vectors of the index {index.manifest.name!r} lie {there}, not at {place.url}; build it again: "
            f"{index.build_command(str(spec))}"
        )
    return open_hybrid(spec, index)
