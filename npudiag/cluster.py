"""Reading on a Dask cluster (extra ``npudiag[dask]``); its workers must see the input under the same paths."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from typing import Any

from npudiag.errors import UsageError

_PATIENCE = "20s"


@contextmanager
def connected(address: str) -> Iterator[tuple[Executor, int]]:
    """Connect to a scheduler; give its executor and how many tasks its workers run at a time.

    Raises:
        UsageError: dask.distributed is not installed, the scheduler does not answer, or it has no workers.
    """
    try:
        import distributed
    except ImportError:
        raise UsageError("--scheduler needs dask.distributed", hint="pip install 'npudiag[dask]'") from None
    connect: Any = distributed.Client  # the library is not typed
    try:
        client = connect(address, timeout=_PATIENCE, set_as_default=False)
    except (OSError, ValueError) as exc:
        raise UsageError(
            f"the scheduler {address} does not answer: {exc}", hint="give the address as dask-scheduler prints it"
        ) from None
    try:
        threads = sum(client.nthreads().values())
        if not threads:
            raise UsageError(f"the scheduler {address} has no workers", hint="start dask-worker on the nodes first")
        # A task reads files: run again on another worker it gives the same.
        yield client.get_executor(retries=2), threads
    finally:
        client.close()
