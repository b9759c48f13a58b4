"""Error under the corruption that a training left out (Yin et al. 2019, table 3, last column).

For each corruption and severity there is a network that was trained on all other corruptions at
that severity. Together they are treated as one classifier, `all_but_one`: its answers under a
corruption come from the network that was not trained on it.
"""

import dataclasses
import itertools
from collections.abc import Iterator, Mapping

import numpy as np
import pandas as pd

from robustness.augment.corruption import RandomCorruption
from robustness.core.errors import KEYS, InputError
from robustness.core.rows import Rows
from robustness.core.typing import Facts
from robustness.corruptions.names import SEVERITIES, spelt_out
from robustness.corruptions.stored import StoredOrMade
from robustness.estimates.means import Row, published_row, table_of_rows
from robustness.estimates.published import ALL_BUT_ONE, TABLE_3
from robustness.estimates.quantity import CLEAN_ERROR, ERROR
from robustness.evaluation.outcomes import Recorded
from robustness.evaluation.study import Recipes

COMPOSED, PUBLISHED = 'all_but_one', 'Yin et al. (2019)'
"""Labels of the composed classifier and of the published values."""


@dataclasses.dataclass(frozen=True)
class AllButOne(StoredOrMade):
  """A study of error under corruptions that a network has not been trained on.

  Each network was trained with all corruptions but one, at one severity (the augmentation
  `corruption`). It is tested on the corruption that it left out. The error under a corruption is a
  mean over severities and needs a network for each. The clean error is the mean over all networks.
  Published values are added to the results.
  """

  title = 'Error under the corruption that training left out'
  papers = ('yin2019fourier',)
  lists_failures = False
  quantities = (ERROR, CLEAN_ERROR)

  def check(self, rows: Rows, recipes: Recipes) -> None:
    """Raises InputError unless each network left out exactly one corruption at one severity.

    All networks must have been trained on the same list of corruptions, and each must have left out
    a different pair of corruption and severity.
    """
    super().check(rows, recipes)
    self.networks(recipes)  # raises InputError

  def networks(self, classifiers: Mapping[str, Facts]) -> dict[tuple[str, int], str]:
    """Finds the network that was trained without each corruption and severity.

    Args:
      classifiers: {label of a network: facts about its training}.

    Returns:
      {(corruption, severity): label of the network}.

    Raises:
      InputError: A network did not leave out exactly one pair, its pair is not tested or is another
        network's too, or the networks were trained on different corruptions.
    """
    networks: dict[tuple[str, int], str] = {}
    for label, facts in classifiers.items():
      parts = facts.get('augment') or ()
      augmentations = [part for part in parts if part['name'] == RandomCorruption.name]
      augmentation = augmentations[0] if augmentations else {}
      left_out = tuple(augmentation.get('left_out', ()))
      severities = tuple(augmentation.get('severities', ()))
      pairs = list(itertools.product(left_out, severities))  # a single one if the training is valid
      problem = ''  # what is wrong with the training, as the end of the error message
      if len(augmentations) > 1 or len(pairs) != 1:
        problem = 'give it the part corruption once, with one name in left_out and one severity'
      elif left_out[0] not in self.names or severities[0] not in self.severities:
        problem = f'which is not shown: see {KEYS.study.corruptions} and {KEYS.study.severities}'
      elif pairs[0] in networks:
        problem = f'as {networks[pairs[0]]} does: take one'
      else:
        training = set(spelt_out(augmentation['corruptions'])), augmentation['probability']
        if not networks:
          first_training = training
        if training != first_training or augmentation['probability'] == 0:
          problem = 'of others than the first: give all equal corruptions and probability above 0'
      if problem:
        raise InputError(
          f'the classifier {label} leaves out the corruptions {left_out} at the severities '
          f'{severities}, {problem}.'
        )
      networks[pairs[0]] = label
    return networks

  def estimates(self, recorded: Recorded) -> Iterator[pd.DataFrame]:
    """Yields tables of error on corruptions that networks were not trained on.

    For each corruption and severity, the predictions come from the network that left it out in
    training. There are errors by corruption and severity, by corruption, and on clean images.
    Published errors by corruption are added.

    Args:
      recorded: predictions of each network for N images in V views: clean, and under each
        corruption at each severity.
    """
    facts = {e.label: e.records.identity.get('classifier') or {} for e in recorded.evaluations}
    networks = self.networks(facts)  # {(corruption, severity): label of the network}
    views = recorded.views
    outcomes = recorded.outcomes(ERROR)
    errors = outcomes.values  # {network: whether it is wrong, bool [N, V]}
    pairs = list(zip(views.corruption, views.severity, strict=True))  # one for each view
    # A column for each (corruption, severity): the errors of the network that left it out.
    wrong = np.stack([errors[label][:, pairs.index(pair)] for pair, label in networks.items()], 1)
    facets = pd.DataFrame(list(networks), columns=['corruption', 'severity'])
    # In the results all networks together appear as one classifier, called `COMPOSED`.
    composed = dataclasses.replace(outcomes, values={COMPOSED: wrong}, views=facets)
    yield self.means(ERROR, composed, ('corruption', 'severity'))
    # The mean of a corruption needs a network for each of its severities.
    has_all = facets.groupby('corruption').severity.transform('size') == len(self.severities)
    yield self.means(ERROR, composed, ('corruption',), where=has_all.to_numpy())
    clean = np.flatnonzero(views.corruption.isna())
    if len(clean):
      # A column for each network: clean images have no corruption that chooses one of them.
      clean_wrong = np.concatenate([errors[label][:, clean] for label in networks.values()], 1)
      yield self.means(CLEAN_ERROR, dataclasses.replace(composed, values={COMPOSED: clean_wrong}))
    yield table_of_rows(self._published_rows(set(facets.corruption)))

  def _published_rows(self, corruptions: set[str]) -> list[Row]:
    """Returns rows of results with the errors that Yin et al. (2019) published.

    Args:
      corruptions: the corruptions to include; the error on clean images always is.
    """
    rows, n = [], TABLE_3.images
    # Published errors are means over five severities, which other settings do not have.
    note = {} if {*self.severities} == {*SEVERITIES} else {'note': 'over five severities'}
    for name, accuracy in ALL_BUT_ONE.items():
      error = round(1 - accuracy, 4)
      if name == 'clean':
        rows.append(published_row(PUBLISHED, CLEAN_ERROR, error, n))
      elif name in corruptions:
        rows.append(published_row(PUBLISHED, ERROR, error, n, corruption=name) | note)
    return rows
