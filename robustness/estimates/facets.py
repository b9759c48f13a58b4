"""Facets: the columns that estimates are grouped by, declared once for tables, figures and
sentences.
"""

import dataclasses
import functools
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
    place: phrase for a value in sentences, such as 'under {}' for 'error under fog'. With '' the
      phrase is made from `words`: 'at severity 3' for numbers, and 'in layer conv1' for names.
    words_of_many: the plural of `words`, if it is irregular.
    places: {value: phrase} for values that do not fit into `place`, such as {'none': 'without
      scaling'}.
    steps: denominator if numbers are written as fractions, such as 255 for 8/255; 0 writes
      decimals.
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
    """The plural of `words`, such as 'corruptions', 'severities' or 'classes'."""
    # {ending of the singular: ending of the plural}; the first that fits is used
    plural_endings = {'y': 'ies', 'ss': 'sses', 's': 's', '': 's'}
    ending = next(ending for ending in plural_endings if self.words.endswith(ending))
    return self.words_of_many or f'{self.words.removesuffix(ending)}{plural_endings[ending]}'

  @property
  def axis(self) -> str:
    """The name of an axis, with the unit, such as 'frequency |f| (cycles per image)'."""
    return f'{self.words} ({self.unit})' if self.unit else self.words


_CYCLES = 'cycles per image'
ordered_facet = functools.partial(Facet, ordered=True)
"""Returns a facet with ordered values, given its name and words."""
CORRUPTION = Facet('corruption', 'corruption', place='under {}')
CORRUPTION_SET = Facet(
  'corruption_set', 'set of corruptions', place='over the {} corruptions', words_of_many='sets'
)
SEVERITY = ordered_facet('severity', 'severity')
STEP = ordered_facet('step', 'training step', place='after step {}')
BAND = Facet('band', 'band of frequencies', place='in the {} band', words_of_many='bands')
_BANDWIDTH = 'bandwidth B, side of a square of frequencies'
BANDWIDTH = ordered_facet('bandwidth', _BANDWIDTH, place='at B = {}', words_of_many='bandwidths')
FREQUENCY_Y = ordered_facet('frequency_y', 'vertical frequency', _CYCLES)
# After the words of the vertical frequency: 'at vertical frequency 2 and horizontal frequency 3'.
FREQUENCY_X = ordered_facet(
  'frequency_x', 'horizontal frequency', _CYCLES, place='and horizontal frequency {}'
)
RADIUS = ordered_facet(
  'radius', 'frequency |f|', _CYCLES, place='at |f| = {}', words_of_many='values of |f|'
)
LAYER = Facet('layer', 'layer')
ATTACK = Facet('attack', 'attack', place='under {}')
EPSILON = ordered_facet('epsilon', 'radius ε', place='at ε = {}', words_of_many='radii', steps=255)
FRAME = ordered_facet('frame', 'place in the sequence', words_of_many='places in the sequence')
K = ordered_facet('k', 'k', 'frames', place='at k = {}', words_of_many='values of k')
ANGLE = ordered_facet('angle', 'angle', 'degrees')
ENVIRONMENT = Facet('environment', 'environment')
CLASS_GROUP = Facet('class_group', 'class group')
CLASS = Facet('class', 'class', place='in class {}')
KIND = Facet('kind', 'kind', place='in {}')
_PLACES_OF_VIEWS = {'clean': 'on clean images', 'corrupted': 'on corrupted images'}
VIEW = Facet('view', 'view', place='in view {}', places=_PLACES_OF_VIEWS)
SCORE = Facet('score', 'score', place='by {}')
REFERENCE = Facet('reference', 'reference sets', place='given {}', words_of_many='reference sets')
RANKED_BY = Facet('ranked_by', 'quantity', place='by {}')
TASK = Facet('task', 'task of the battery', place='in {}', words_of_many='tasks')
SEED = ordered_facet('seed', 'seed')
SHARED = {facet.name: facet for facet in [*vars().values()] if isinstance(facet, Facet)}
"""Facets that several studies use, by name. A study declares its other facets itself."""
