"""Downloading one file of a model hub over HTTPS, with the standard library."""

from __future__ import annotations

import http.client
import os
import urllib.error
import urllib.request

from tenfold.checkpoints.catalog import HubFile
from tenfold.checkpoints.sink import Sink, SourceError

_TIMEOUT_S = 15
_BLOCK = 1 << 20


def download_hub_file(source: HubFile, sink: Sink) -> None:
    """Copy a hub file into a sink. $HF_ENDPOINT names another hub than https://huggingface.co.

    Raises:
        SourceError: the hub cannot be reached or does not give the file.
    """
    endpoint = os.environ.get("HF_ENDPOINT", "https://huggingface.co").rstrip("/")
    url = f"{endpoint}/{source.repo}/resolve/main/{source.file}"
    if not url.startswith(("https://", "http://")):
        raise SourceError(f"HF_ENDPOINT is {endpoint!r}, which is no http(s) address")
    request = urllib.request.Request(url, headers={"User-Agent": "tenfold"})
    try:
        response = urllib.request.urlopen(request, timeout=_TIMEOUT_S)
    except urllib.error.HTTPError as error:
        error.close()
        raise SourceError(f"{url} answered {error.code} {error.reason}") from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise SourceError(f"{url} cannot be reached ({getattr(error, 'reason', error)})") from None
    with response:
        while True:
            try:
                block = response.read(_BLOCK)
            except (OSError, http.client.HTTPException) as error:
                raise SourceError(f"the connection broke ({error})") from None
            if not block:
                return
            sink.write(block)
