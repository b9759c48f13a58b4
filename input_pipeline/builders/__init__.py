"""TFDS builders of this project; `register` makes `tfds.load` find them.

TFDS asks its providers for a name. Ours returns a class whose module it imports only when it
is asked for. Where TFDS is not imported yet it is given the provider when it is, so that
`import input_pipeline` costs neither TensorFlow nor TFDS, and works without them.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

BUILDERS = {
  'corrupted': ('input_pipeline.builders.corrupted', 'Corrupted'),
  'held_out_environments': ('input_pipeline.builders.held_out_environments', 'HeldOutEnvironments'),
  'si_score_scenes': ('input_pipeline.builders.si_score_scenes', 'SiScoreScenes'),
  'video_neighbors': ('input_pipeline.builders.video_neighbors', 'VideoNeighbors'),
}
REGISTRY = 'tensorflow_datasets.core.registered'


class Provider:
  """Gives TFDS the builders named in `BUILDERS`."""

  def has_dataset(self, name: str) -> bool:
    """Returns whether a builder of this name is here."""
    return name in BUILDERS

  def get_builder_cls(self, name: str) -> Any:
    """Returns the builder's class; its module is imported now."""
    module, attribute = BUILDERS[name]
    return getattr(importlib.import_module(module), attribute)


class _WhenImported(MetaPathFinder):
  """Adds the provider once TFDS's registry is imported; finds nothing itself."""

  def find_spec(
    self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
  ) -> ModuleSpec | None:
    if name != REGISTRY:
      return None
    sys.meta_path.remove(self)
    spec = importlib.util.find_spec(name)
    if spec is not None and spec.loader is not None:
      execute = spec.loader.exec_module

      def execute_and_add(module: ModuleType) -> None:
        execute(module)
        _add(module)

      spec.loader.exec_module = execute_and_add  # type: ignore[method-assign]
    return spec


def _add(registry: Any) -> None:
  """Adds the provider, and its names to what `tfds.list_builders` returns."""
  registry.add_dataset_builder_provider(Provider(), index=0)
  others = registry.list_imported_builders
  registry.list_imported_builders = lambda: sorted({*others(), *BUILDERS})


def register() -> None:
  """Lets `tfds.load` and `tfds.builder` find the builders, now or when TFDS is imported."""
  registry = sys.modules.get(REGISTRY)
  if registry is not None:
    _add(registry)
  else:
    sys.meta_path.insert(0, _WhenImported())
