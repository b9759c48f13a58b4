"""The first screen of a battery's report: its title, its table with short names and its profile."""

import sys

import numpy as np
import pytest

from robustness.combined import join_tasks
from robustness.estimates.corruption_error import MCE
from robustness.estimates.means import Estimate, estimate_row, table_of_rows
from robustness.estimates.of_means import ITSELF
from robustness.estimates.quantity import ACCURACY, CLEAN_ERROR, ERROR
from robustness.estimates.table import assemble
from robustness.present import headlines, page, profile
from robustness.present.summary import present_run
from robustness.results import Results
from robustness.studies.attack_error import AttackError
from tests import faults

LABELS = 'plain', 'robust'
DATA = {'source': 'tfds', 'name': 'cifar10/3.0.2', 'num_examples': 40, 'image_shape': [32, 32, 3]}
ATTACKED = AttackError(attacks=('auto_attack',)).quantities[0]
CALLABLE = {
  'label': 'plain',
  'name': 'net.py:build',
  'file': 'net.py',
  'object': 'build',
  'parameters': 269722,
  'sha256': 64 * 'a',
}


def task(*measured, classifiers=LABELS):
  """Returns results with rows (quantity, facets, value, note), equal for all classifiers."""

  def estimate(value, note):
    return Estimate(value, value - 0.1, value + 0.1, 40, 40, 'exact', note=note)

  rows = [
    estimate_row(label, '', quantity, facets, estimate(value, note), 0.95)
    for quantity, facets, value, note in measured
    for label in classifiers
  ]
  quantities = tuple(dict.fromkeys(quantity for quantity, *_ in measured))
  described = [CALLABLE if label == 'plain' else {'label': label} for label in LABELS]
  return Results(
    'made', described, DATA, {}, table=assemble([table_of_rows(rows)]), quantities=quantities
  )


TASKS = {
  'clean': task((ACCURACY, {}, 0.9, '')),
  'corruptions': task(
    *(
      (ERROR, {'corruption': name, 'severity': severity}, severity / 10, '')
      for name in ('fog', 'gaussian_noise')
      for severity in (1, 2)
    ),
    (ERROR, {}, 0.2, ''),
    (MCE, {}, 1.0, ITSELF),
  ),
  'heat_map': task(
    *(
      (ERROR, {'frequency_y': y, 'frequency_x': x}, (y + x + 4) / 10, '')
      for y in range(3)
      for x in range(-1, 3)
    )
  ),
  'attack': task(
    (CLEAN_ERROR, {}, 0.2, ''), (ATTACKED, {'epsilon': 8 / 255}, 0.7, ''), classifiers=LABELS[:1]
  ),
}


@pytest.fixture(scope='module')
def battery():
  return join_tasks(TASKS, {})


def test_the_profile_has_heat_map_corruptions_and_attack_of_each_classifier(battery):
  figures = present_run('', {}).figures(battery)
  assert next(iter(figures)) == 'profile', 'the first figure of the report'
  figure, caption = figures['profile']
  panels = [axes for axes in figure.axes if axes.axison and axes.get_label() != '<colorbar>']
  assert len(panels) == 5, 'the attack leaves out the second classifier'
  cells, curve = panels[1], panels[2]
  names = [label.get_text() for label in cells.get_yticklabels()]
  assert names == ['fog', 'gaussian noise']
  (line,) = (line for line in curve.lines if line.get_linestyle() == '-')
  np.testing.assert_allclose(line.get_xydata(), [[0, 80], [8 / 255, 30]])
  assert [tick.get_text() for tick in curve.get_xticklabels()] == ['0', '8/255']
  assert caption.startswith(
    'Profile: top-1 error by frequency, n = 40; 95 % intervals; top-1 error'
  )
  assert 'top-1 accuracy under ℓ∞ AutoAttack by ε' in caption


def test_a_battery_without_any_of_its_parts_has_no_profile():
  assert not profile.draw({'clean': TASKS['clean']})


def test_the_name_of_a_battery_has_classifiers_and_images_and_its_table_short_names(battery):
  context = page.Context()
  text = page.render(page.pathlib.Path(), battery, [], context)
  assert '<h1>Robustness of plain and robust on CIFAR-10</h1>' in text
  first = headlines.table(battery.by_task, 10)
  assert [line[0] for line in first.rows] == [
    *('clean: accuracy (%)', 'corruptions: error (%)', 'heat map: highest error (%)'),
    *('attack: AA 8/255 error (%)', 'attack: clean error (%)'),
  ]
  assert len(headlines.table(battery.by_task, 3).rows) == 3
  assert 'build of net.py, 269,722 parameters, SHA-256 aaaaaaaaaaaa' in text


def test_an_axis_of_headlines_says_which_end_is_better_once(battery):
  figure, _ = headlines.draw(battery.by_task)['overview_share_lower']
  assert figure.axes[0].get_xlabel().replace('\n', ' ') == 'value (lower is better) (%)'


def test_a_label_of_all_classifiers_together_is_neither_in_the_title_nor_in_the_profile():
  together = task((ACCURACY, {}, 0.9, ''), classifiers=(*LABELS, 'all classifiers'))
  tasks = {**TASKS, 'neighbors': together}
  figure, caption = profile.draw(tasks)['profile']
  expected, expected_caption = profile.draw(TASKS)['profile']
  assert (figure.get_figheight(), caption) == (expected.get_figheight(), expected_caption)
  text = page.render(page.pathlib.Path(), join_tasks(tasks, {}), [], page.Context())
  assert '<h1>Robustness of plain and robust on CIFAR-10</h1>' in text


def test_texts_of_a_profile_do_not_overlap(monkeypatch):
  labels = 'timm:convnext_base.fb_in22k_ft_in1k_augmix', 'robust_resnet50_linf_eps8_pgd_of_another'
  monkeypatch.setattr(sys.modules[__name__], 'LABELS', labels)
  radii = [numerator / 255 for numerator in (0.5, 1, 2, 4, 8)]
  corruptions = [f'corruption_number_{number}' for number in range(40)]
  corrupted = [
    (ERROR, {'corruption': c, 'severity': s}, 0.2, '') for c in corruptions for s in (1, 2)
  ]
  attacked = [(ATTACKED, {'epsilon': radius}, 0.3, '') for radius in radii]
  tasks = {
    'corruptions': task(*corrupted, classifiers=labels),
    'attack': task((CLEAN_ERROR, {}, 0.2, ''), *attacked, classifiers=labels),
  }
  figure, _caption = profile.draw(tasks)['profile']
  assert not [*faults.overlaps(figure)]
  texts = [text.get_text() for text in figure.axes[1].get_xticklabels()]
  assert texts == ['0', '', '', '2/255', '4/255', '8/255']
