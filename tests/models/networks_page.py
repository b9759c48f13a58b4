"""Makes the table of docs/records/networks.md from the catalog and the peers of parity tests.

python -m tests.models.networks_page    # writes it into the page
"""

from __future__ import annotations

import functools
import math
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

from robustness.models import catalog
from robustness.models.architecture import Architecture
from tests.models.peer_networks import PEERS

PAGE = pathlib.Path(__file__).parents[2] / 'docs/records/networks.md'
HEADER = (
  '`--config.classifier.name=`',
  *('made for', 'parameters (millions)', 'named weights', 'names in files', 'compared with'),
  *('licence', 'source'),
)


def rows(count: Callable[[Architecture], int]) -> Iterator[tuple[str, ...]]:
  """Yields the cells of each architecture; `count` gives its parameters."""
  for entry in catalog.ARCHITECTURES.values():
    height, width, channels = entry.input_shape
    millions = count(entry) / 1e6
    named = ', '.join(f'`{w.name}`' + (' (default)' * w.default) for w in entry.weights)
    yield (
      f'`{entry.name}`',
      f'{height}×{width}' + (' grey' if channels == 1 else ''),
      f'{millions:.2f}' if millions < 10 else f'{millions:.0f}',
      named or 'none',
      ', '.join(scheme.name.partition(',')[0] for scheme in entry.schemes) or 'none: trained here',
      compared(entry.name),
      entry.licence,
      entry.source,
    )


def compared(name: str) -> str:
  """Returns who wrote an architecture's peer, and what it is called there."""
  if name not in PEERS:
    return 'its own test'
  peer, build = PEERS[name], PEERS[name].build
  arguments: tuple[Any, ...] = ()
  if isinstance(build, functools.partial):
    arguments = (*build.args, *build.keywords.values())
  peer_name = next((value for value in arguments if isinstance(value, str)), '')
  return f'{peer.library} `{peer_name}`' if peer_name else peer.library


def parameters(entry: Architecture) -> int:
  """Returns the number of an architecture's parameters for the classes it was made for."""
  shapes = entry.shapes(entry.network.num_classes)
  return sum(math.prod(shape) for path, shape in shapes.items() if path[0] == 'params')


def table(count: Callable[[Architecture], int] = parameters) -> str:
  """Returns the table as Markdown."""
  lines = (HEADER, ('---',) * len(HEADER), *rows(count))
  return ''.join(f'| {" | ".join(cells)} |\n' for cells in lines)


def main() -> None:
  """Replaces the first table of the page."""
  before, _, after = PAGE.read_text(encoding='utf-8').split('\n\n', 2)
  PAGE.write_text(f'{before}\n\n{table()}\n{after}', encoding='utf-8')


if __name__ == '__main__':
  main()
