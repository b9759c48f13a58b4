"""What every study says of its results: exact sentences, and what is left out of poorer results."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator

import numpy as np
import pytest

from robustness.evaluation import study as studies
from robustness.report import citations, html
from robustness.results import Number, Results, Table
from robustness.wording import by_default, seeds
from robustness.wording.number_labels import has_label
from tests.documented import documented_studies
from tests.wording.made import PAIRED, made, number, results

MADE = results()
INTERVAL = re.compile(r'\([−+]?\d[\d.,]* to [−+]?\d[\d.,]*(, for all \d+ together)?\)')


def told(results: Results) -> list[str]:
  sentences = studies.module(results.study).Study.sentences
  return [text.replace('\N{NO-BREAK SPACE}', ' ') for text in sentences(None, results)]


EXPECTED = {
  'accuracy': [
    'Of 200 images, first is right on 90.0 % (88.0 to 92.0); '
    'second is right on 80.0 % (78.0 to 82.0).',
    'Accuracy minus that of first on the same images: '
    'second −10 points (−15 to −5), less accurate.',
    'The least accurate class: of first “cat”, 70 % (59 to 80, for all 2 together), most often '
    'taken for “dog”; of second “cat”',
  ],
  'attack_error': [
    'Under pgd (linf, ε = 0.0314), on 200 images, first errs on 90.0 % (88.0 to 92.0), without on '
    '10.0 % (8.0 to 12.0); second errs on 30.0 % (28.0 to 32.0), without on 10.0 % (8.0 to 12.0).',
    'Error under attack minus that of first, image by image: '
    'second −60 points (−65 to −55), lower error.',
  ],
  'band_noise': ['On clean images, first errs on 10.0 % (8.0 to 12.0); second errs on'],
  'filtered_accuracy': [
    'On images that are not filtered, first is right on 90.0 % (88.0 to 92.0)',
    'Of low-pass filtered images, half of the clean accuracy is kept by first from bandwidth 5 on, '
    'where it is right on 60 % (52 to 68, for all 2 together); second from bandwidth 3 on',
  ],
  'calibration': [
    'Expected calibration error (0 is best): first 0.10 (0.08 to 0.12) on clean images and 0.20 '
    '(0.18 to 0.22) under the 15 official corruptions (overconfident by 15.0 points (13.0 to '
    '17.0)); second 0.20 (0.18 to 0.22) on clean images (underconfident by 10.0 points (8.0 to '
    '12.0)) and 0.30 (0.28 to 0.32) under the 15 official corruptions.'
  ],
  'fourier_attack': [
    'Under single Fourier basis images of L2 norm 24, on 200 images that did not choose them, '
    'first errs on 50.0 % (48.0 to 52.0) after one query and 90.0 % (88.0 to 92.0) after 10, '
    'without attack on 10.0 % (8.0 to 12.0)'
  ],
  'fourier_heatmap': [
    'Under Fourier basis noise of L2 norm 4, on 200 images, first errs most at frequency (−1, 2): '
    '50 % (40 to 60, for all 13 together); second errs most at frequency (−2, 1): 50 %',
    'Error by band of frequencies, the largest first: first 60.0 % (58.0 to 62.0) at high '
    'frequency, 20.0 % (18.0 to 22.0) at low frequency; second 40.0 % (38.0 to 42.0) at low',
    'Error over all frequencies minus that of first, on the same images: second −21 points (−24 to '
    '−18), lower error.',
    'Frequency by frequency, against the error of first, second is farthest below at (−1, 2), by '
    '−40 points (−47 to −33, for all 13 together), lower error, and farthest above at (−2, 1), by '
    '+40 points (+33 to +47, for all 13 together), higher error; it errs significantly less in 8 % '
    'and more in 8 % of the map.',
  ],
  'fourier_preview': [
    'Energy of the gradient of the loss at a frequency, relative to the mean over all of them, '
    'image by image: first 3.00 (2.98 to 3.02) at low frequency, 0.60 (0.58 to 0.62) at high'
  ],
  'tradeoff': [
    'Accuracy minus that of first, on the line through the corruptions: second +28 points (+23 to '
    '+33) where 4 % of what a corruption adds is of high frequency, the least of those shown, and '
    '−5 points (−10 to 0) where 70 % is, the most: it fares better at low frequency than at high.',
    'How far the corruptions lie off that line, root mean square: second 10.0 points (8.0 to '
    '12.0), a straight line does not fit.',
  ],
  'video_pm_k': [
    'Of 200 video frames and the similar ones up to 10 frames away, first is right on 80.0 % (78.0 '
    'to 82.0), and on all frames around them on 60.0 % (58.0 to 62.0): a drop of 20.0 points (18.0 '
    'to 22.0); second',
    'The drop minus that of first, on the same sets: second −10.0 points (−12.0 to −8.0), more '
    'robust.',
    'Accuracy on the worst of the frames minus that of first, on the same sets: second 0 points '
    '(−5 to +5), no difference shown.',
  ],
}


def test_every_documented_study_is_here_with_words_a_title_and_its_papers() -> None:
  assert set(MADE) == set(EXPECTED)
  for name in documented_studies():
    study = studies.module(name).Study
    assert set(study.papers) <= set(citations.PAPERS) and (study.papers or name == 'accuracy')
    assert name in html.TITLES


@pytest.mark.parametrize('study', EXPECTED)
def test_the_sentences_of_a_study(study: str) -> None:
  sentences = told(MADE[study])
  for expected, sentence in zip(EXPECTED[study], sentences, strict=False):
    assert sentence.startswith(expected)
  assert len(sentences) >= len(EXPECTED[study])


@pytest.mark.parametrize('study', MADE)
def test_no_sentence_is_without_an_interval(study: str) -> None:
  for sentence in told(MADE[study]):
    assert INTERVAL.search(sentence), sentence
    assert sentence.endswith('.') and not re.search(r'nan|None|_', sentence), sentence


def poorer(whole: Results) -> Iterator[tuple[str, Results]]:
  """Yields copies that lack one number, interval, table or array."""
  for name in whole.numbers:
    lacking = copy.deepcopy(whole)
    lacking.numbers[name] = Number(0.5, float('nan'), float('nan'), 9, '')
    yield name, lacking
  for field in ('numbers', 'tables', 'arrays', 'settings'):
    for name in getattr(whole, field):
      lacking = copy.deepcopy(whole)
      del getattr(lacking, field)[name]
      yield name, lacking
  for name, table in whole.tables.items():
    lacking = copy.deepcopy(whole)
    lacking.tables[name] = Table(table.columns, [])
    yield name, lacking


@pytest.mark.parametrize('study', MADE)
def test_what_results_lack_is_left_out(study: str) -> None:
  whole = told(MADE[study])
  for name, lacking in poorer(MADE[study]):
    sentences = told(lacking)
    assert len(sentences) <= len(whole), name
    assert all(INTERVAL.search(sentence) for sentence in sentences), name
  assert told(Results(study, {'label': 'net'}, {}, {})) == []


@pytest.mark.parametrize('study', MADE)
def test_every_number_has_a_plain_label(study: str) -> None:
  assert [name for name in MADE[study].numbers if not has_label(name)] == []


def test_a_map_that_is_worse_nowhere_has_no_worst_cell() -> None:
  better = copy.deepcopy(MADE['fourier_heatmap'])
  for end in ('', '_low', '_high'):
    better.arrays[f'second/difference{end}'] = better.arrays[f'second/difference{end}'] - 0.4
  (sentence,) = [text for text in told(better) if text.startswith('Frequency by frequency')]
  assert 'farthest below at (−1, 2)' in sentence and 'farthest above' not in sentence


def test_corruptions_that_other_images_could_put_on_the_line_are_not_said_to_lie_off_it() -> None:
  close = copy.deepcopy(MADE['tradeoff'])
  close.numbers['second/residual'] = Number(0.02, 0.0, 0.03, 200, 'bootstrap over images 0.95')
  assert told(close)[1].endswith('second 2.0 points (0.0 to 3.0), no lack of fit shown.')


def test_only_drops_are_called_more_or_less_robust() -> None:
  for study, whole in MADE.items():
    for sentence in told(whole):
      assert 'robust.' not in sentence or 'drop' in sentence, (study, sentence)


def test_one_classifier_is_compared_with_none() -> None:
  alone = made('accuracy', {'top1_accuracy': number(0.9)}, classifier={'label': 'net'})
  assert told(alone) == ['Of 200 images, net is right on 90.0 % (88.0 to 92.0).']


def test_a_mean_over_seeds_of_calibration_errors_has_no_verdict() -> None:
  """What debiasing leaves of chance is the same in every seed."""
  *_, sentence = told(MADE['calibration'])
  assert sentence.endswith('on clean images, worse calibrated.')
  over = copy.deepcopy(MADE['calibration'])
  over.numbers['second/ece_difference/clean'] = number(0.1, interval='student over seeds 0.95', n=3)
  assert told(over)[-1].endswith('second +10.0 points (+8.0 to +12.0) on clean images.')


def test_clauses_of_many_classifiers_have_a_line_each() -> None:
  labels = ['one', 'two', 'three']
  many = made(
    'accuracy',
    {f'{label}/top1_accuracy': number(0.9) for label in labels},
    classifier=[{'label': label} for label in labels],
  )
  assert [line.split()[0] for line in told(many)[0].splitlines()] == ['Of', *labels]


def test_a_study_without_words_tells_its_first_numbers() -> None:
  own = Results('shift', {'label': 'net'}, {}, {}, {'top1_accuracy': number(0.9), 'odd': number(2)})
  assert by_default.sentences(own) == [
    'Top-1 accuracy: 0.90 (0.88 to 0.92).',
    'Odd: 2.00 (1.98 to 2.02).',
  ]


def test_of_many_classes_the_interval_holds_for_those_that_the_table_leaves_out_too() -> None:
  few = copy.deepcopy(MADE['accuracy'])
  few.data['class_names'] = [str(k) for k in range(1000)]
  assert ', for all 1000 together), most often taken for “dog”' in told(few)[2]


def test_a_map_of_a_sequential_design_has_its_own_images_at_each_frequency() -> None:
  sequential = copy.deepcopy(MADE['fourier_heatmap'])
  error = sequential.arrays['first/error']
  sequential.arrays |= {
    'first/images': np.where(error == error.max(), 400, 100),
    'first/error_low': error - 0.1,
    'first/error_high': error + 0.1,
  }
  (sentence, *_) = told(sequential)
  assert sentence.startswith(
    'Under Fourier basis noise of L2 norm 4, on 100 to 400 images each, first errs most at '
    'frequency (−1, 2): 50 % (41 to 59, for all 13 together)'
  )


def test_a_class_that_few_images_do_not_tell_from_the_others_is_not_called_the_least_accurate() -> (
  None
):
  few = copy.deepcopy(MADE['accuracy'])
  images = few.tables['by_class'].columns.index('images')
  for row in few.tables['by_class'].rows:
    row[images] = 3
  assert len(told(few)) == len(told(MADE['accuracy'])) - 1
  assert not any('least accurate class' in sentence for sentence in told(few))


def test_what_another_seed_changes_most_is_said_of_shares_alone() -> None:
  numbers = {
    'error': Number(0.3, 0.2, 0.4, 2, 'student over seeds 0.95'),
    'mCE_difference/official': Number(0.1, -3.0, 3.2, 2, 'student over seeds 0.95'),
  }
  for seed in (0, 1):
    numbers[f'seed{seed}/error'] = Number(0.3, 0.2, 0.4, 100, 'clopper-pearson 0.95')
    numbers[f'seed{seed}/mCE_difference/official'] = Number(0.1, 0, 0.2, 100, 'log ratio 0.95')
  over = Results('made', {'label': 'net'}, {}, {'seeds': [0, 1]}, numbers)
  (text,) = seeds.sentences(over)
  assert 'error: 0.30 (0.20 to 0.40)' in text and 'mCE' not in text


def test_the_largest_loss_has_an_interval_below_zero() -> None:
  over = copy.deepcopy(MADE['tradeoff'])
  changes = [name for name in over.numbers if '/accuracy_change/' in name and 'clean' not in name]
  for place, name in enumerate(changes):
    value = -0.2 - 0.1 * place
    over.numbers[name] = number(value, interval=PAIRED)
  text = next(sentence for sentence in told(over) if sentence.startswith('Compared with'))
  assert re.search(r'loses most under [^,]+, −[\d.]+ points \(−[\d.]+ to −[\d.]+, for all', text), (
    text
  )


TOLD = re.compile(r'([−+]?\d[\d.]*)(?: %| points)? \(([−+]?\d[\d.]*) to ([−+]?\d[\d.]*)')


@pytest.mark.parametrize('study', MADE)
def test_every_interval_that_is_told_holds_its_value(study: str) -> None:
  for sentence in told(MADE[study]):
    for parts in TOLD.findall(sentence):
      value, low, high = (float(part.replace('−', '-')) for part in parts)
      assert low <= value <= high, sentence
