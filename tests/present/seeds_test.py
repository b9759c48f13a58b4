"""The picture of several seeds, and what another seed changes."""

from __future__ import annotations

import copy

import numpy as np
import pytest

from robustness.estimates.quantity import ACCURACY, Quantity
from robustness.present import seeds, style
from robustness.results import Results, joined, over_seeds
from tests import said
from tests.present.headlines_test import made

SLOPE = Quantity('slope', 'slope', kind='amount', headline=True)
BY_SEED = {
  seed: made({ACCURACY: {'a': (first,), 'b': (0.5,)}, SLOPE: {'a': (2.0 + seed,)}})
  for seed, first in ((0, 0.8), (7, 0.9))
}


def test_a_line_a_headline_with_a_dot_a_seed() -> None:
  ((name, (figure, caption)),) = seeds.draw(over_seeds(BY_SEED)).items()
  assert name == 'seeds' and '2 seeds' in caption
  shares, slope = figure.axes
  texts = [[label.get_text() for label in axes.get_yticklabels()] for axes in figure.axes]
  assert texts == [['top-1 accuracy, a', 'top-1 accuracy, b'], ['slope, a']]
  assert shares.get_xlabel() == 'value (%)' and slope.get_xlabel() == 'value'
  dots = np.concatenate([line.get_xdata() for line in shares.lines if line.get_marker() == 'o'])
  assert sorted(dots) == pytest.approx([50, 50, 80, 90])
  means = [line.get_color() for line in shares.lines if line.get_marker() == style.MARKERS[3]]
  assert means == [style.colour(0), style.colour(1)]


def test_the_caption_has_the_confidence_of_the_means() -> None:
  for of in (by_seed := copy.deepcopy(BY_SEED)).values():
    of.table['confidence'] = np.nan
  _, caption = seeds.draw(over_seeds(by_seed, 0.9))['seeds']
  assert ' 90 % interval ' in caption


def test_long_names_of_classifiers_leave_room_for_their_values() -> None:
  long = {
    seed: made({ACCURACY: {'n' * 100: (0.1 * seed,), 'word ' * 20: (0.5,)}}) for seed in (1, 2)
  }
  figure, _ = seeds.draw(over_seeds(long))['seeds']
  assert list(said.overlaps(figure)) == []
  assert figure.axes[0].bbox.width > 200


def test_without_declared_headlines_every_quantity_is_drawn() -> None:
  plain = made({Quantity('x', 'x'): {'a': (0.5,)}})
  assert list(seeds.draw(over_seeds({0: plain, 1: plain}))) == ['seeds']


@pytest.mark.parametrize('battery', [False, True])
def test_what_another_seed_changes_most_is_told_in_the_mean(battery: bool) -> None:
  by_seed: dict[int, Results] = BY_SEED
  if battery:
    by_seed = {seed: joined({'clean': of}, {}) for seed, of in BY_SEED.items()}
  (found,) = seeds.most_changed(over_seeds(by_seed))
  sentence, rows = found.text, found.rows
  assert len(rows) == 1
  assert sentence.replace('\N{NO-BREAK SPACE}', ' ') == (
    'Over 2 seeds, the share that another seed changes most is '
    f'{"clean, " if battery else ""}b minus a, top-1 accuracy: −35 points (−99 to +29).'
  )
