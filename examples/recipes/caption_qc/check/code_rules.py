"""The rules of control codes: what a decoder meets in the words of the profile's channel."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from examples.recipes.caption_qc.check.rule import Rule

RULES: tuple[Rule, ...] = ()
