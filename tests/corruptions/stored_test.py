"""Tests that stored corrupted images, in any order, have the results of images made here."""

import dataclasses
import pathlib

import numpy as np
import pandas as pd
import pytest

from robustness.config.experiment import Execution
from robustness.core import random_keys
from robustness.core.rows import ArrayRows
from robustness.corruptions.names import NAMES, NUMBERS, StoredPart
from robustness.corruptions.stored import StoredOrMade, rows_by_part, stored_settings
from robustness.corruptions.views import CorruptionOptions
from robustness.evaluation import one_view
from robustness.evaluation.study import STUDIES
from robustness.measurement import measure
from robustness.results import Results
from robustness.studies.corruption_error import CorruptionError
from tests.cases import cases
from tests.networks import CLASSES, tiny_classifier
from tests.refusals import refused

FOG, SNOW = NAMES.index('fog'), NAMES.index('snow')
PARTS = [StoredPart(*part) for part in ((-1, 0), (SNOW, 2), (FOG, 1), (FOG, 2))]
IDS = np.array([3, 7, 8])


def shuffled_rows() -> tuple[np.ndarray, list[np.ndarray]]:
  """Returns rows of 4 parts with 3 images each, in random order: values, and columns.

  The values are 100 * part + id, [12]; the columns are corruption, severity and id of the image.
  """
  numbers = np.array(PARTS).repeat(3, axis=0)
  ids = np.tile(IDS, 4)
  order = np.random.default_rng(0).permutation(12)
  values = 100 * np.arange(4).repeat(3) + ids
  return values[order], [column[order] for column in (numbers[:, 0], numbers[:, 1], ids)]


def test_rows_in_any_order_become_a_table_of_images_and_parts() -> None:
  values, columns = shuffled_rows()
  table = values[rows_by_part(columns, PARTS)]
  np.testing.assert_array_equal(table, np.add.outer(IDS, 100 * np.arange(4)))
  np.testing.assert_array_equal(values[rows_by_part(columns, PARTS[2:])], table[:, 2:])


def test_a_missing_or_double_row_is_refused() -> None:
  _, columns = shuffled_rows()
  message = 'all 3 images must be there once in every part'
  refused(message, rows_by_part, [column[1:] for column in columns], PARTS)
  twice = [np.append(column, column[0]) for column in columns]
  refused('has 4 rows of 3 images', rows_by_part, twice, PARTS)


def test_wanted_corruptions_and_severities_are_restricted_to_the_stored_ones() -> None:
  assert stored_settings(PARTS, ('snow', 'fog', 'frost'), (5, 2)) == (('snow', 'fog'), (2,))
  assert stored_settings(PARTS, ('fog',), (2, 1)) == (('fog',), (2, 1))
  message = 'snow 1 are wanted, but the set has snow 2, fog 1, fog 2'
  refused(message, stored_settings, PARTS, ('snow', 'fog'), (1, 2))
  refused('frost are wanted', stored_settings, PARTS, ('frost',), (1,))


SHOWN = {'corruptions': ('contrast', 'gaussian_noise', 'brightness'), 'severities': (1, 3)}
SHAPE = (32, 32, 3)
IMAGES = np.random.default_rng(5).integers(0, 256, (6, *SHAPE), np.uint8)
LABELS = np.array([0, 1, 2, 3, 0, 2])


def study_of(name: str, **settings) -> StoredOrMade:
  """Returns the study of this name with the corruptions and severities of `SHOWN`."""
  return STUDIES.find(name, 'the study')(**SHOWN, **settings)


def stored_rows(clean: bool = True) -> ArrayRows:
  """Six images, clean and as `SHOWN` makes them of 8 bits, in the order of a released set."""
  made, rows = study_of('tradeoff', quantize='floor'), ArrayRows(IMAGES, LABELS, CLASSES)
  key, table = random_keys.stream(0, made.stream), made.facets(SHAPE)
  numbers_and_levels = [(NUMBERS[name], level) for name, level in table.values[1:]]
  parts = np.array([(-1, 0), *numbers_and_levels], np.int32)
  order = [view for view in np.lexsort(parts.T[::-1]) if view or clean]
  clean_rows = [one_view.read_row(rows, n) for n in range(6)]
  pictures = [[one_view.show(made, row, view, key) for row in clean_rows] for view in order]
  numbers = parts[order].repeat(6, axis=0)
  columns = {'corruption': numbers[:, 0], 'severity': numbers[:, 1]}
  columns['base_id'] = np.tile(np.arange(10, 16, dtype=np.int32), len(order))
  images = np.rint(255 * np.concatenate(pictures)).astype(np.uint8)
  facts = {'stored': True, 'parts': len(order), 'clean_images': clean}
  return ArrayRows(images, np.tile(LABELS, len(order)), CLASSES, columns=columns, facts=facts)


def by_view(results: Results) -> pd.DataFrame:
  """Returns a table without accuracies by class, whose n counts rows and not images."""
  table = results.table
  return table[table['class'].isna()].reset_index(drop=True) if 'class' in table else table


@pytest.mark.slow
@cases('name', 'corruption_error', 'tradeoff', 'corruption_spectrum', 'calibration')
def test_stored_images_have_the_results_of_made_ones(name: str, tmp_path: pathlib.Path) -> None:
  """A part has 6 rows, so that blocks of 16 stored rows have rows of three or four parts."""
  networks = [tiny_classifier(seed, f'net{seed}', SHAPE) for seed in (0, 1)]
  measured = {}
  for source in ('generated', 'stored'):
    study = study_of(name, source=source, quantize='floor' if source == 'generated' else '')
    rows = ArrayRows(IMAGES, LABELS, CLASSES) if source == 'generated' else stored_rows()
    study.check(rows, {})
    execution = Execution(batch_size=16 if source == 'stored' else 0)
    measured[source] = measure(study, execution, networks, rows, tmp_path / source)
    assert study.figures(measured[source])
  made, stored = measured.values()
  # Confidences in float32 may be rounded otherwise in blocks of another size.
  pd.testing.assert_frame_equal(*map(by_view, measured.values()), atol=1e-6)
  assert set(made.table.quantity) == set(stored.table.quantity)
  for array in ('gallery', 'gallery_clean', 'spectrum', 'clean_spectrum'):
    assert (array in made.arrays) == (array in stored.arrays)
    if array in made.arrays:
      np.testing.assert_allclose(made.arrays[array], stored.arrays[array], atol=1e-6)


@cases(
  'clean, settings',
  pytest.param(
    True, {'corruptions': ('contrast', 'brightness'), 'severities': (3,)}, marks=pytest.mark.slow
  ),
  (False, {'corruptions': ('contrast',), 'severities': (1, 3)}),
)
def test_a_study_evaluates_only_the_parts_that_it_counts(clean, settings, tmp_path, monkeypatch):
  """The set has seven parts of six images, or six without clean images; all give equal results."""
  study, rows = CorruptionError(**settings, source='stored'), stored_rows(clean)
  needed = study.needed_rows(rows)
  parts = len(settings['corruptions']) * len(settings['severities']) + clean
  assert needed.num_examples == 6 * parts == needed.description['num_examples']
  assert needed.description['parts'] == parts
  assert needed.description['severities'] == [*settings['severities']]
  assert needed.description['corruptions'] == [n for n in NAMES if n in settings['corruptions']]
  assert study.needed_rows(needed) is needed
  networks = [tiny_classifier(0, 'net', SHAPE)]
  partial = measure(study, Execution(batch_size=4), networks, rows, tmp_path / 'some')
  with monkeypatch.context() as patch:
    patch.setattr(StoredOrMade, 'needed_rows', lambda self, rows: rows)
    full = measure(study, Execution(batch_size=4), networks, rows, tmp_path / 'every')
  assert partial.data['num_examples'] == 6 * parts < full.data['num_examples']
  pd.testing.assert_frame_equal(by_view(partial), by_view(full), atol=1e-6)


def test_a_warning_says_that_saturate_leaves_grey_images_unchanged(caplog):
  study = CorruptionError(corruptions=('saturate', 'fog'))
  for images, count in ((IMAGES[..., :1], 1), (IMAGES, 0)):
    caplog.clear()
    study.check(ArrayRows(images, LABELS, CLASSES), {})
    assert sum('saturate leaves grey images' in line for line in caplog.messages) == count


def test_settings_of_made_images_are_refused_with_stored_ones() -> None:
  for setting, value in (
    ('quantize', 'floor'),
    ('constants', 32),
    ('photographs', 'imagecorruptions'),
    ('options', CorruptionOptions(motion_blur='fixed')),
  ):
    message = f"study.{setting} is .*left out with source='stored'"
    refused(message, study_of, 'corruption_error', source='stored', **{setting: value})


def test_photographs_and_options_of_other_corruptions_are_refused() -> None:
  rows, options = ArrayRows(IMAGES, LABELS, CLASSES), CorruptionOptions(motion_blur='fixed')
  for name in ('calibration', 'corruption_error'):
    check = study_of(name, photographs='imagecorruptions').check
    refused("photographs is .*'' without frost", check, rows, {})
    refused("options is 'motion_blur'", study_of(name, options=options).check, rows, {})
  CorruptionError(corruptions=('frost', 'motion_blur'), options=options).check(rows, {})


def test_sets_without_clean_images_are_refused_where_a_study_needs_them(
  tmp_path: pathlib.Path,
) -> None:
  """A change is measured against the clean image; errors and calibration need none."""
  for name in ('tradeoff', 'corruption_spectrum'):
    check, without = study_of(name, source='stored').check, stored_rows(clean=False)
    refused(f'{name} measures what .*arrays holds no clean images', check, without, {})
    refused('no corruption, severity, base_id', check, ArrayRows(IMAGES, LABELS, CLASSES), {})
  networks = [tiny_classifier(shape=SHAPE)]
  calibrated = study_of('calibration', source='stored')
  scored = measure(calibrated, Execution(), networks, without, tmp_path / 'calibration')
  assert 'view' not in scored.table and 'ece' in set(scored.table.quantity), 'no clean group'
  errors = study_of('corruption_error', source='stored')
  with_fog = dataclasses.replace(errors, corruptions=(*errors.corruptions, 'fog'))
  refused('the set lacks fog: fetch it', with_fog.check, without, {})
  results = measure(errors, Execution(), networks, without, tmp_path / 'errors')
  assert 'clean_error' not in set(results.table.quantity)


def test_blocks_with_too_many_parts_are_refused(tmp_path: pathlib.Path, monkeypatch):
  """A shard of at most 6 rows has room for two parts, and a block of 20 rows has rows of four."""
  monkeypatch.setattr('robustness.studies.corruption_spectrum.MOST_ROWS', 6)
  study = study_of('corruption_spectrum', source='stored')
  message = r'batch_size=20 rows holds 4 corrup.*at most 6'
  refused(message, measure, study, Execution(batch_size=20), [], stored_rows(), tmp_path)
