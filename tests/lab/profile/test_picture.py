from __future__ import annotations

from xml.etree import ElementTree

import pytest

from tenfold.lab.profile.picture import draw
from tenfold.lab.profile.report import ProfileReport

SVG = "{http://www.w3.org/2000/svg}"


def test_the_picture_is_svg_with_a_box_for_each_part(report: ProfileReport) -> None:
    root = ElementTree.fromstring(draw(report, "a <model> & more"))
    assert root.tag == f"{SVG}svg"
    titles = [node.text or "" for node in root.iter(f"{SVG}text")]
    assert any(text.startswith("a <model> & more: prefill") for text in titles)
    names = [(node.text or "").splitlines()[0] for node in root.iter(f"{SVG}title")]
    assert names.count("step") == 2 and "2 layers" in names and "attention" in names
    assert "prefers-color-scheme: dark" in (root.findtext(f"{SVG}style") or "")


def test_boxes_are_as_wide_as_their_time_and_lie_within_their_step(report: ProfileReport) -> None:
    root = ElementTree.fromstring(draw(report, "tiny"))
    boxes = {}
    for group in root.iter(f"{SVG}g"):
        rect = group.find(f"{SVG}rect")
        assert rect is not None
        name = (group.findtext(f"{SVG}title") or "").splitlines()[0]
        boxes.setdefault(name, []).append((float(rect.get("x", "0")), float(rect.get("width", "0"))))
        assert boxes[name][-1][0] + boxes[name][-1][1] <= 1200 - 15.9
    for phase, (_, step), (_, layers) in zip(report.phases, boxes["step"], boxes["2 layers"], strict=True):
        share = next(part.share for part in phase.tree.parts if part.name == "2 layers")
        assert layers / step == pytest.approx(share, abs=1e-3)
