"""`robustness models list`: architectures and known weights, as a Markdown table.

A weights' name serves as config.classifier.weights, an architecture's as config.classifier.name.
"""

import itertools
import math
import sys
from collections.abc import Iterator

from robustness.models import catalog
from robustness.models.architecture import Architecture

USAGE = 'usage: robustness models list'
HEADER = ('architecture', 'weights', 'parameters', 'input', 'mean', 'std', 'source', 'licence')


def main(arguments: list[str]) -> int:
  """Prints the table and returns the exit status: 0, or 2 for another command than `list`."""
  if arguments != ['list']:
    print(USAGE, file=sys.stderr)
    return 2
  for cells in itertools.chain((HEADER, ['---'] * len(HEADER)), rows()):
    print(f'| {" | ".join(cells)} |', flush=True)
  return 0


def rows() -> Iterator[tuple[str, ...]]:
  """Yields the cells of every architecture, and below it those of its known weights; those that it
  takes by default are marked."""
  for architecture in catalog.ARCHITECTURES.values():
    parameters = f'{architecture.parameters or _count(architecture):,}'
    shape = '×'.join(map(str, architecture.input_shape))
    scales = _numbers(architecture.mean), _numbers(architecture.std)
    named = (architecture.name, '', parameters, shape, *scales)
    yield *named, architecture.source, architecture.licence
    for weights in architecture.weights:
      name = f'`{weights.name}`' + (' (default)' if weights.default else '')
      side = weights.input_size
      size = f'{side}×{side} of {weights.resize}, {weights.interpolation}'
      scales = _numbers(weights.mean), _numbers(weights.std)
      file = f'{weights.package.rstrip("/")}/{weights.file}'
      yield '', name, parameters, size, *scales, file, weights.licence


def _count(architecture: Architecture) -> int:
  """Returns the number of weights, without running statistics, for the classes it was made for."""
  shapes = architecture.shapes(architecture.network.num_classes)
  return sum(math.prod(shape) for path, shape in shapes.items() if path[0] == 'params')


def _numbers(values: tuple[float, ...]) -> str:
  return ' '.join(f'{value:.3f}'.lstrip('0') for value in values)
