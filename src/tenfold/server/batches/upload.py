"""Multipart uploads, read within bounds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import BinaryIO

from python_multipart.exceptions import FormParserError
from starlette.datastructures import FormData, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import ClientDisconnect, Request

from tenfold.config.server import ServerSettings
from tenfold.core.errors import InvalidRequestError
from tenfold.server.errors import ApiError, ClientGoneError
from tenfold.server.limits import DISCARDED_BYTES

# Of a form: its boundaries, names and small fields.
_FRAME_BYTES = 1 << 16
_MAX_FIELDS = 16
_MAX_AT_ONCE = 4


class Uploads:
    """Reads forms with one file; it lies in a temporary file until it is taken.

    Args:
        settings: max_file_bytes and body_timeout_s are used.
    """

    def __init__(self, settings: ServerSettings) -> None:
        self._limit = settings.max_file_bytes
        self._timeout = settings.body_timeout_s
        self._at_once = 0

    @asynccontextmanager
    async def form(self, request: Request) -> AsyncIterator[FormData]:
        """The request's form, while the block lasts.

        Raises ApiError 413 (too long), 429 (too many at once), 408 (nothing came for too long) or
        InvalidRequestError.
        """
        if not request.headers.get("content-type", "").lower().startswith("multipart/form-data"):
            raise InvalidRequestError("The body must be a form (multipart/form-data) with file and purpose.")
        announced = request.headers.get("content-length", "")
        if announced.isdigit() and int(announced) > self._limit + DISCARDED_BYTES:
            raise self._too_long()
        if self._at_once >= _MAX_AT_ONCE:
            raise ApiError(
                429,
                f"{self._at_once} files are being uploaded; try again soon.",
                headers={"Retry-After": "5"},
            )
        form = await self._read(request)
        try:
            if any(isinstance(part, UploadFile) and (part.size or 0) > self._limit for part in form.values()):
                raise self._too_long()
            yield form
        finally:
            await form.close()

    async def _read(self, request: Request) -> FormData:
        self._at_once += 1
        parser = MultiPartParser(request.headers, self._bounded(request), max_files=1, max_fields=_MAX_FIELDS)
        try:
            return await parser.parse()
        except (MultiPartException, FormParserError) as error:
            raise InvalidRequestError(
                f"The form cannot be read: {getattr(error, 'message', error)}"
            ) from None
        except ClientDisconnect:
            raise ClientGoneError from None
        except OSError as error:
            message = f"The file cannot be kept while it comes in ({error.strerror}); make room for temporary files."
            raise ApiError(507, message, code="storage_unavailable") from None
        finally:
            self._at_once -= 1

    async def _bounded(self, request: Request) -> AsyncGenerator[bytes, None]:
        size = 0
        parts = request.stream()
        while True:
            try:
                part = await asyncio.wait_for(anext(parts, None), self._timeout)
            except (TimeoutError, asyncio.TimeoutError):
                message = f"Nothing of the file came for {self._timeout:g} seconds; send it faster."
                raise ApiError(408, message, headers={"Connection": "close"}) from None
            size += 0 if part is None else len(part)
            is_too_long = size > self._limit + _FRAME_BYTES
            # Most clients look for an answer only when they have sent all.
            if is_too_long and (part is None or size > self._limit + DISCARDED_BYTES):
                raise self._too_long()
            if part is None:
                return
            if not is_too_long:
                yield part

    def _too_long(self) -> ApiError:
        return ApiError(
            413,
            f"The file has more than {self._limit} bytes, this server's limit; send it in parts.",
            code="request_too_large",
            headers={"Connection": "close"},
        )


def file_of(form: FormData) -> tuple[BinaryIO, str]:
    """The form's file and its name. Raises InvalidRequestError."""
    upload = form.get("file")
    if not isinstance(upload, UploadFile):
        raise InvalidRequestError("file is missing; the form must have it.", param="file")
    return upload.file, upload.filename or "upload.jsonl"
