"""Facets: the columns that estimates are grouped by, declared once for tables, figures and
sentences.
"""

import dataclasses
from collections.abc import Mapping

from robustness.core.errors import InputError


@dataclasses.dataclass(frozen=True)
class Facet:
  """A column of the table of results that groups estimates, such as `corruption` or `severity`.

  Attributes:
    name: name of the column.
    words: the name in plain words, such as 'bandwidth'.
    unit: unit of its values; '' for none.
    ordered: whether its values are ordered numbers, such as severities, and not names.
    place: the phrase for a value, such as 'under {}'. '' stands for 'at WORDS {}' for numbers and
      'in WORDS {}' for names, with `words`.
    words_of_many: the plural of `words`, if it is not regular.
    places: phrases for single values that `place` does not fit, such as {'none': 'without
      scaling'}.
    steps: numbers that are multiples of 1/steps are written as fractions, such as 8/255; 0 writes
      none so.
  """

  name: str
  words: str
  unit: str = ''
  ordered: bool = False
  place: str = ''
  words_of_many: str = ''
  places: Mapping[str, str] = dataclasses.field(default_factory=dict, hash=False)
  steps: int = 0

  def __post_init__(self) -> None:
    """Raises InputError if the facet has no name or no words."""
    if not self.name or not self.words:
      raise InputError(f'A facet is called {self.name!r}, in words {self.words!r}: give both.')

  @property
  def plural(self) -> str:
    """The plural of the words: 'corruptions', 'severities', 'classes'."""
    endings = ('y', 'ies'), ('ss', 'sses'), ('s', 's'), ('', 's')
    end, ends = next(pair for pair in endings if self.words.endswith(pair[0]))
    return self.words_of_many or f'{self.words.removesuffix(end)}{ends}'

  @property
  def axis(self) -> str:
    """The name of an axis, with the unit: 'frequency |f| (cycles per image)'."""
    return f'{self.words} ({self.unit})' if self.unit else self.words


_CYCLES = 'cycles per image'
CORRUPTION = Facet('corruption', 'corruption', place='under {}')
CORRUPTION_SET = Facet(
  'corruption_set', 'set of corruptions', place='over the {} corruptions', words_of_many='sets'
)
SEVERITY = Facet('severity', 'severity', ordered=True)
STEP = Facet('step', 'training step', ordered=True, place='after step {}')
BAND = Facet('band', 'frequencies', place='in the {} band', words_of_many='bands')
BANDWIDTH = Facet(
  'bandwidth',
  'bandwidth B, side of a square of frequencies',
  ordered=True,
  place='at B = {}',
  words_of_many='bandwidths',
)
FREQUENCY_Y = Facet('frequency_y', 'vertical frequency', _CYCLES, ordered=True)
FREQUENCY_X = Facet(
  'frequency_x', 'horizontal frequency', _CYCLES, ordered=True, place='and horizontal frequency {}'
)
RADIUS = Facet('radius', 'frequency |f|', _CYCLES, True, 'at |f| = {}', 'values of |f|')
LAYER = Facet('layer', 'layer')
ATTACK = Facet('attack', 'attack', place='under {}')
EPSILON = Facet('epsilon', 'radius ε', '', True, 'at ε = {}', 'radii', steps=255)
FRAME = Facet('frame', 'place in the sequence', '', True, '', 'places in the sequence')
K = Facet('k', 'k', 'frames', True, 'at k = {}', 'values of k')
ANGLE = Facet('angle', 'angle', 'degrees', ordered=True)
ENVIRONMENT = Facet('environment', 'environment')
CLASS_GROUP = Facet('class_group', 'class group')
CLASS = Facet('class', 'class', place='in class {}')
KIND = Facet('kind', 'kind', place='in {}')
VIEW = Facet(
  'view',
  'view',
  place='in view {}',
  places={'clean': 'on clean images', 'corrupted': 'on corrupted images'},
)
SCORE = Facet('score', 'score', place='by {}')
REFERENCE = Facet('reference', 'reference sets', '', False, 'given {}', 'reference sets')
RANKED_BY = Facet('ranked_by', 'quantity', place='by {}')
TASK = Facet('task', 'task of the battery', '', False, 'in {}', 'tasks')
SEED = Facet('seed', 'seed', ordered=True)
SHARED = {facet.name: facet for facet in [*vars().values()] if isinstance(facet, Facet)}
"""Facets that several studies use, by name. A study declares its other facets itself."""
