"""A Chroma server in place of Chroma's files: `chroma+http(s)://HOST:PORT[?collection=NAME&tenant=…&database=…]`.

Passages and BM25 stay in the index's folder, the vectors are a collection on the server, searched as `hybrid` does.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import urlsplit

from turnmark.corpora.errors import RequestError, TurnmarkError
from turnmark.corpora.specs import Spec
from turnmark.retrieval.servers import Served, address, redact

TOKEN = "TURNMARK_CHROMA_TOKEN"
PORT = 8000
CLOUD = ".trychroma.com"
"""Chroma's own service, which reads the token from a header of its own."""

SECONDS = 60.0
TRIES, FIRST_WAIT, LONGEST_WAIT = 4, 0.2, 2.0
PATIENCE = 120.0
"""Seconds that a build waits for a server that went away in the middle: as long as a restart takes, or a move."""

T = TypeVar("T")


def asked(url: str, call: Callable[[], T], patience: float | None = None) -> T:
    """What a call to the server gives, tried again while the connection fails. Calls must be safe to repeat.

    Args:
        patience: seconds to go on trying; None: a few tries, within about two seconds.

    Raises:
        TurnmarkError: the server cannot be reached, refuses the token, lacks what is asked for, or fails.
    """
    import httpx
    from chromadb.errors import AuthorizationError, ChromaAuthError, NotFoundError
    from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, stop_after_delay, wait_exponential

    retrying = Retrying(
        retry=retry_if_exception_type(httpx.TransportError),
        stop=stop_after_attempt(TRIES) if patience is None else stop_after_delay(patience),
        wait=wait_exponential(FIRST_WAIT, LONGEST_WAIT),
        reraise=True,
    )
    attempts = f"{TRIES} tries" if patience is None else f"tried for {patience:g} s"
    try:
        return retrying(call)
    except TurnmarkError:
        raise
    except httpx.TransportError as error:
        raise TurnmarkError(
            f"the Chroma server at {url} cannot be reached ({attempts}): {redact(error)}; start it, or wait for it"
        ) from None
    except (AuthorizationError, ChromaAuthError):
        raise TurnmarkError(f"the Chroma server at {url} refuses the request; set {TOKEN} in the environment") from None
    except NotFoundError as error:
        raise TurnmarkError(
            f"the Chroma server at {url} lacks something: {redact(error)}; build the index again"
        ) from None
    except Exception as error:  # its client raises a plain Exception for whatever answer it does not know
        if "401" in (message := redact(error)) or "403" in message:
            message += f"; set {TOKEN} in the environment"
        raise TurnmarkError(f"the Chroma server at {url} failed: {message}") from None


def connect(place: Served) -> Any:
    """A client for the place's server, tenant and database; the server is asked for its heartbeat first.

    Raises:
        TurnmarkError: it does not answer as a Chroma server does; see `asked`.
    """
    import chromadb
    from chromadb.config import Settings
    from chromadb.errors import NotFoundError

    url = place.url
    settings = Settings(anonymized_telemetry=False)
    if token := os.environ.get(TOKEN):
        settings.chroma_client_auth_provider = "chromadb.auth.token_authn.TokenAuthClientProvider"
        settings.chroma_client_auth_credentials = token
        settings.chroma_auth_token_transport_header = "X-Chroma-Token" if _is_cloud(url) else "Authorization"
    asked(url, lambda: _heartbeat(url))

    def opened() -> Any:
        try:
            return chromadb.HttpClient(
                url, port=PORT, ssl=url.startswith("https:"), settings=settings, **dict(place.within)
            )
        except (NotFoundError, ValueError) as error:
            if not place.within:
                raise
            place_text = " in ".join(f"{kind} {name!r}" for kind, name in place.within)
            raise TurnmarkError(
                f"the Chroma server at {url} has no {place_text}, or does not let us in: {redact(error)}; whoever "
                "runs it makes tenants and databases (chromadb.AdminClient)"
            ) from None

    client: Any = asked(url, opened)
    # Chroma's client waits for ever, and has no setting for that.
    session = getattr(getattr(client, "_server", None), "_session", None)
    if session is not None:
        session.timeout = SECONDS
    return client


def _heartbeat(url: str) -> None:
    """Ask with a time limit, which Chroma's own client has not."""
    import httpx

    headers = {}
    if token := os.environ.get(TOKEN):
        headers = {"X-Chroma-Token": token} if _is_cloud(url) else {"Authorization": f"Bearer {token}"}
    reply = httpx.get(f"{url}/api/v2/heartbeat", timeout=SECONDS / TRIES, headers=headers)
    if reply.status_code in (401, 403):
        raise TurnmarkError(f"the Chroma server at {url} refuses the request; set {TOKEN} in the environment")
    if not reply.is_success or "heartbeat" not in reply.text:
        raise TurnmarkError(
            f"what answers at {url} is no Chroma server of version 1 (status {reply.status_code} for its heartbeat)"
        )


def _is_cloud(url: str) -> bool:
    return (urlsplit(url).hostname or "").endswith(CLOUD)


def remove(place: Served) -> None:
    """Delete a collection, if it is there.

    Raises:
        TurnmarkError: see `asked`.
    """
    from chromadb.errors import NotFoundError

    client = connect(place)

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
    host = address(spec.url, PORT, spec.name, TOKEN)
    if host.path:
        raise RequestError(f"retriever {spec.name!r}: an address ends with the port; leave {host.path!r} out")
    return Served(
        kind="chroma", url=host.base, name=spec.options.get("collection", ""), tenant=spec.options.get("tenant", ""),
        database=spec.options.get("database", ""),
    )  # fmt: skip


def collection_name(text: str) -> str:
    """The option `collection`: the beginning of a collection's name."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{1,99}", text):
        raise ValueError("2 to 100 letters, digits, '.', '_' and '-', beginning with a letter or digit")
    return text


def within_name(text: str) -> str:
    """The options `tenant` and `database`; Chroma's service names tenants by their UUID."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{2,99}", text):
        raise ValueError("3 to 100 letters, digits, '.', '_' and '-', beginning with a letter or digit")
    return text


OPTIONS: dict[str, Callable[[str], Any]] = {
    "collection": collection_name, "tenant": within_name, "database": within_name,
}  # fmt: skip
"""Options of this retriever beside those of `hybrid`."""


def hybrid_spec(spec: Spec) -> Spec:
    """The retriever with the same index in its folder, without a reranker."""
    options = {key: text for key, text in spec.options.items() if key not in OPTIONS and not key.startswith("rerank")}
    return Spec("hybrid", options=options)
