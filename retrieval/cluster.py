"""Reaching a Ray cluster: the one of this machine, one that is started for a command, or another machine's by its
client server; and what workers may take of its nodes."""

from __future__ import annotations

import logging
import os
import re
import socket
import sys
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from turnmark.corpora.errors import TurnmarkError

CLIENT_PORT = 10001
CPUS = 4
"""Cores of a worker without a GPU, or all of its node where that has fewer."""
ATTEMPTS = 3
"""Times that a client server is asked for a process of ours."""
KNOCK = 10.0
"""Seconds in which a client server takes a connection."""
_HEAD = "does its head run, and is that its --ray-client-server-port?"
_SHARED_MEMORY = 256 << 20
_LINE_LENGTH = 300


def connected(engine: str) -> tuple[Any, bool]:
    """Ray's module, connected, and whether the connection is ours to end.

    Args:
        engine: `ray`, or `ray://HOST[:PORT]`.
    """
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    if engine != "ray":
        _take_token()  # before Ray is imported, which reads it then
    # A cluster that is started here works as the command would; by Ray's default it comes after all else (nice 15).
    os.environ.setdefault("RAY_worker_niceness", "0")
    import ray

    if ray.is_initialized():
        return ray, False
    quiet: dict[str, Any] = {"logging_level": "ERROR", "log_to_driver": False}
    if engine != "ray":
        address = engine if re.search(r":[0-9]+$", engine) else f"{engine}:{CLIENT_PORT}"
        check_port(engine, address)
        _by_client(ray, engine, address, quiet)
        return ray, True
    address = os.environ.get("RAY_ADDRESS") or "auto"
    try:
        ray.init(address=address, **quiet)
    except (OSError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
        if address != "auto" or not isinstance(error, ConnectionError):
            cluster = "the cluster of this machine" if address == "auto" else f"a cluster at {address}"
            raise _unusable(engine, cluster, error_line(error)) from error
        ray.init(
            address="local", include_dashboard=False, object_store_memory=_SHARED_MEMORY,
            _node_ip_address="127.0.0.1", **quiet,
        )  # fmt: skip
    return ray, True


def lost_connection() -> tuple[type[Exception], ...]:
    """What Ray's client raises once its server is gone for good."""
    grpc = sys.modules.get("grpc")
    return (ConnectionError, grpc.RpcError) if grpc is not None else (ConnectionError,)


def _take_token() -> None:
    """Ray takes up a token for clusters that it starts or finds by itself, but not for one that is named."""
    path = os.environ.get("RAY_AUTH_TOKEN_PATH") or str(Path.home() / ".ray" / "auth_token")
    if os.environ.get("RAY_AUTH_TOKEN") or Path(path).is_file():
        os.environ.setdefault("RAY_AUTH_MODE", "token")


def check_port(engine: str, address: str) -> None:
    """Where nobody listens, Ray's client would take half a minute to say so."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=KNOCK).close()
    except (OSError, OverflowError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise _unusable(engine, f"a cluster at {address}", f"{reason}; {_HEAD}") from error


def _by_client(ray: Any, engine: str, address: str, quiet: Mapping[str, Any]) -> None:
    """Connect to a client server.

    It forks a process for each client out of one with many threads, and now and then that process dies before it has
    begun. The next one does not.
    """
    cluster = f"a cluster at {address}"
    warnings.filterwarnings("ignore", module=r"ray\.util\.client")  # what they say, the errors say as well
    logging.getLogger("ray.util.client").setLevel(logging.CRITICAL)
    for attempt in range(1, ATTEMPTS + 1):
        try:
            ray.init(address=address, **quiet)
            return
        except ConnectionAbortedError as error:
            if attempt == ATTEMPTS:
                reason = (
                    f"its client server could start no process for this command, {ATTEMPTS} times: {error_line(error)}"
                )
                raise _unusable(engine, cluster, reason) from error
        except ConnectionError as error:
            raise _unusable(
                engine, cluster,
                f"no Ray client server answered; {_HEAD} Where the cluster asks for a token, is it in RAY_AUTH_TOKEN, "
                "or in ~/.ray/auth_token, on this machine?",
            ) from error  # fmt: skip
        except (OSError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
            raise _unusable(engine, cluster, error_line(error)) from error


def _unusable(engine: str, cluster: str, reason: str) -> TurnmarkError:
    return TurnmarkError(f"--engine {engine}: {cluster} cannot be used: {reason}")


def error_line(error: BaseException) -> str:
    """What an error says, in one line: the last one of a traceback that a server sent."""
    text = str(error).strip()
    if "Traceback (most recent call last)" in text:
        text = text.splitlines()[-1]
    return " ".join(text.split())[:_LINE_LENGTH] or type(error).__name__


def shapes(nodes: Iterable[Mapping[str, Any]]) -> list[dict[str, float]]:
    """What each worker takes of its node: a GPU where the node has some, else some cores."""
    alive = [node["Resources"] for node in nodes if node["Alive"]]
    cores = int(min((node.get("CPU", 0) for node in alive if node.get("CPU", 0) >= 1), default=1))
    shape = min(CPUS, cores)
    shape_list: list[dict[str, float]] = []
    for node in alive:
        if gpus := int(node.get("GPU", 0)):
            shape_list += [{"num_cpus": 1, "num_gpus": 1}] * gpus
        else:
            shape_list += [{"num_cpus": shape}] * (int(node.get("CPU", 0)) // shape)
    return shape_list or [{"num_cpus": 1}]
