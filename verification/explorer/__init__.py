"""Every interleaving of a few actors over the real protocol and commit loop, with misfortunes anywhere."""

from __future__ import annotations

from verification.explorer.search import Counterexample, Report, explore, replay

__all__ = ["Counterexample", "Report", "explore", "replay"]
