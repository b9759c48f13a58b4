"""`robustness list`: what a config can name, each with a line.

robustness list [studies] [configs] [classifiers] [sources]

  Without words it lists all. `robustness NAME --help` has the keys of a config.
"""

import pathlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import robustness.studies
from input_pipeline.settings import SOURCES
from robustness.cli import command_line, new_parser
from robustness.cli.explain import meanings
from robustness.config import packaged
from robustness.core.settings import choice
from robustness.evaluation import study
from robustness.models import catalog

Listing = Iterable[tuple[str, str]]
"""Pairs of a name and a line about it."""


def main(arguments: Sequence[str]) -> int:
  """Prints lists of studies, configs, classifiers and other parts; returns 0.

  Args:
    arguments: names of lists in `PARTS`, such as ['studies']; [] prints all.

  Raises:
    InputError: a word names no list.
  """
  parser = new_parser('robustness list', __doc__)
  parser.add_argument('parts', nargs='*', metavar='PART', help=', '.join(PARTS))
  parts = parser.parse_args(arguments).parts
  for name in parts:
    choice('a part of robustness list', name, PARTS)
  for name in parts or PARTS:
    heading, lines = PARTS[name]
    print(heading)
    entries = list(lines())
    width = max(len(word) for word, _ in entries)
    for word, text in entries:
      print(f'  {word:<{width}}  {text}'.rstrip())
    print()
  return 0


def matching(word: str) -> Iterator[str]:
  """Yields the lines of `robustness --help=WORD`, the places where a word occurs.

  First come the studies, configs, classifiers and data sources (`PARTS`) with the word in their
  name or description. Then come the studies with the word in a setting's name or meaning, and a
  command to find these settings.
  """

  def has_word(*texts: str) -> bool:
    """Returns whether one of the texts contains the word, in lower or upper case."""
    return any(word.lower() in text.lower() for text in texts)

  for heading, lines in PARTS.values():
    entries = [f'  {name}  {text}' for name, text in lines() if name and has_word(name, text)]
    if entries:
      yield from [heading, *entries, '']
  examples = []  # studies with a packaged config of the same name
  for name, study_class in study.STUDIES.classes().items():
    if name in packaged.files():
      meaning_by_key = meanings(study_class)
      if has_word(*meaning_by_key, *meaning_by_key.values()):
        examples.append(name)
  if examples:
    yield f'studies with such keys\n  {", ".join(examples)}\n'
  example = f'robustness {examples[0] if examples else "accuracy"} --help={word}'
  yield f'keys of a config: robustness CONFIG --help={word}, such as {example}'
  yield 'commands: robustness --help'


def studies() -> Listing:
  """Yields (name, title) for every study."""
  folder = pathlib.Path(robustness.studies.__file__ or '').parent
  for name in study.STUDIES.classes():
    yield name, packaged.first_line(folder / f'{name}.py')


def configs() -> Listing:
  """Yields (name, description) for every packaged config.

  For a config with variants, ('', 'variants: NAME, NAME') follows, with the default first.
  """
  for name, file in packaged.files().items():
    yield name, packaged.first_line(file)
    variants = list(filter(None, command_line.variants(str(file))))
    if variants:
      yield '', f'variants: {", ".join(variants)}'


def classifiers() -> Listing:
  """Yields (name, 'input size; licence; source') for every architecture.

  ('', 'NAME: resolution; licence') follows for each of its published weights. The name of the
  default weights ends with `*`.
  """
  for name, entry in catalog.ARCHITECTURES.items():
    yield name, f'{"×".join(map(str, entry.input_shape))}; {entry.licence}; {entry.source}'
    for weights in entry.weights:  # `weights.default` is true for one of them
      side = weights.input_size
      size = f'{side}×{side} of {weights.resize}, {weights.interpolation}'
      yield '', f'{weights.name}{"*" * weights.default}: {size}; {weights.licence}'


def sources() -> Listing:
  """Yields (name, description) for every source of images."""
  for name, source in SOURCES.classes().items():
    yield name, (source.__doc__ or '').partition('\n')[0]


PARTS: Mapping[str, tuple[str, Callable[[], Listing]]] = {
  'studies': ('studies (config.study.name)', studies),
  'configs': ('configs (robustness NAME[:VARIANT] --workdir=DIR)', configs),
  'classifiers': (
    'classifiers (config.classifier.name), weights (config.classifier.weights)',
    classifiers,
  ),
  'sources': ('data sources (config.data.source)', sources),
}
"""Lists that the command prints: {name: (heading, function that yields the lines)}."""
