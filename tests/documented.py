"""Which studies the documents describe: those that have a page, which a study under way lacks."""

from __future__ import annotations

import pathlib

from robustness.evaluation import study

ROOT = pathlib.Path(__file__).resolve().parent.parent


def page(name: str) -> pathlib.Path | None:
  """Returns the page of a study, in docs/studies/ or docs/ itself; None where there is none."""
  pages = (ROOT / folder / f'{name}.md' for folder in ('docs/studies', 'docs'))
  return next((path for path in pages if path.exists()), None)


def documented_studies() -> list[str]:
  """Returns the studies with a page."""
  return [name for name in study.STUDIES.classes() if page(name)]
