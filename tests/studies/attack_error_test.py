"""Tests the study `attack_error` against attacks on whole batches, counted in NumPy."""

import dataclasses
import json
from typing import Any

import jax
import numpy as np
import pytest
from scipy import stats

from robustness import parallel
from robustness.attacks.auto_attack import BY_SQUARE
from robustness.attacks.fab import FAB
from robustness.attacks.pgd import FGSM, PGD
from robustness.core import random_keys
from robustness.estimates.comparison import mcnemar
from robustness.estimates.intervals import clopper_pearson
from robustness.estimates.table import select
from robustness.evaluation import recorded_study
from robustness.evaluation import study as studies
from robustness.evaluation.study import Study
from robustness.fourier.filters import high_pass
from robustness.present import text
from robustness.studies.attack_error import AttackError
from tests.cases import cases
from tests.end_to_end import runs
from tests.networks import SHAPE
from tests.refusals import bad_setting, refused
from tests.studies.conftest import COUNT, classifier, measured, recorded, rows
from tests.table_rows import estimate

STEPS, STEP_SIZE = 4, 0.008
SMALL = AttackError(
  attacks=('pgd', 'fgsm'),
  attack={'pgd': {'steps': STEPS, 'step_size': STEP_SIZE}},
  epsilon=0.02,
  epsilons=(0.01,),
)


def attacked_in_batches(study: AttackError, seed: int) -> np.ndarray:
  """Returns the images of every view [V, N, H, W, C], by attacks on whole batches."""
  network, data = classifier('', seed), rows()
  views = study.views(SHAPE)
  stream = random_keys.stream(0, study.name)

  def logits(images):
    return network.forward(network.variables, images, ())[0]

  attacked = [data.images]
  for index in range(1, len(views)):
    epsilon = float(views.parameters['epsilon'][index])
    view_id, ids = views.ids[index], np.arange(COUNT)
    keys = jax.vmap(lambda e, view_id=view_id: random_keys.for_example(stream, e, view_id))(ids)
    if views.parameters['attack'][index] == 0:
      size = STEP_SIZE * epsilon / study.epsilon
      attack = PGD('linf', epsilon, steps=STEPS, step_size=size)
    else:
      attack = FGSM('linf', epsilon)
    attacked.append(attack(keys, logits, data.images, data.labels))
  return np.stack([np.asarray(images) for images in attacked])


@pytest.mark.slow
def test_errors_and_spectra_agree_with_attacks_on_whole_batches():
  findings, *_ = measured(SMALL)
  results = findings.table
  labels, worst = rows().labels, {}
  for seed, label in enumerate(('first', 'second')):

    def row_of(quantity: str, attack: str, label: str = label) -> Any:
      return estimate(results, label, quantity, attack=attack, epsilon=SMALL.epsilon)

    attacked = attacked_in_batches(SMALL, seed)
    network = classifier('', seed)
    wrong = np.stack([network.predict(images).argmax(1) != labels for images in attacked])
    wrong_attacked = wrong[1:].reshape(2, 2, COUNT)  # [epsilon, attack, image]
    worst[label] = wrong_attacked.any(1)
    errors = select(results, 'error', attack=..., epsilon=...)
    expected = wrong_attacked.mean(2).ravel()
    np.testing.assert_allclose(errors.value[errors.classifier == label], expected)
    assert estimate(results, label, 'clean_error').value == wrong[0].mean()
    worst_error = estimate(results, label, 'attack_error', epsilon=SMALL.epsilon)
    assert (worst_error.value, worst_error.n) == (worst[label][1].mean(), COUNT)
    exact = clopper_pearson(worst[label][1].sum(), COUNT, SMALL.confidence)
    assert (worst_error.low, worst_error.high) == pytest.approx(exact)
    assert row_of('error', 'fgsm').value == wrong_attacked[1, 1].mean()
    change = (attacked[1:] - attacked[0]).reshape(2, 2, *attacked.shape[1:])
    spectra = np.fft.fftshift(np.abs(np.fft.fft2(change, axes=(3, 4), norm='ortho')), axes=(3, 4))
    for e, a in np.ndindex(2, 2):
      successful = spectra[e, a][wrong_attacked[e, a]]
      assert 0 < len(successful) < COUNT, 'the case leaves images right and wrong'
      spectrum = findings.arrays[f'{label}/spectrum'][e, a]
      np.testing.assert_allclose(spectrum, successful.mean((0, -1)), atol=2e-5)
    successful = spectra[1, 0][wrong_attacked[1, 0]]
    energy = (successful**2).sum((1, 2, 3))
    norm = row_of('change_norm', 'pgd')
    assert (norm.n, norm.value) == (len(energy), pytest.approx(np.sqrt(energy).mean(), rel=1e-4))
    high = (successful**2)[:, high_pass(*SHAPE[:2], 0)].sum((1, 2)) / energy
    row = row_of('high_frequency', 'pgd')
    assert row.value == pytest.approx(high.mean(), rel=1e-4)
    half = stats.t.ppf(0.975, len(high) - 1) * high.std(ddof=1) / np.sqrt(len(high))
    assert row.high - row.value == pytest.approx(half, rel=1e-3)
    facets = {'attack': 'pgd', 'epsilon': SMALL.epsilon, 'radius': 0}
    at_zero = estimate(results, label, 'radial_amplitude', **facets)
    centre = tuple(side // 2 for side in SHAPE[:2])
    assert at_zero.value == pytest.approx(successful[:, *centre].mean(), abs=2e-5)
    clean_amplitude = np.abs(np.fft.fft2(attacked[0], axes=(1, 2), norm='ortho'))[:, 0, 0].mean()
    at_zero = estimate(results, label, 'clean_radial_amplitude', radius=0)
    assert (at_zero.value, at_zero.n) == (pytest.approx(clean_amplitude, rel=1e-5), COUNT)
    for epsilon in SMALL.radii:
      largest = estimate(results, label, 'largest_change', attack='pgd', epsilon=epsilon)
      assert 0 < largest.value <= epsilon * (1 + 1e-5)
  pairs = select(results, 'attack_error', 'first', epsilon=...)
  gained, lost = worst['second'] & ~worst['first'], worst['first'] & ~worst['second']
  np.testing.assert_allclose(pairs.value, gained.mean(1) - lost.mean(1), atol=1e-12)
  np.testing.assert_allclose(pairs.p, mcnemar(gained.sum(1), lost.sum(1)))


def test_the_id_of_a_view_does_not_depend_on_the_other_attacks_of_a_run():
  views = SMALL.views(SHAPE)
  ball = {'norm': SMALL.norm, 'epsilon': SMALL.epsilon}
  only_fgsm = AttackError(attacks=('fgsm',), **ball).views(SHAPE)
  assert only_fgsm.ids[1] == views.ids[-1] and len(set(views.ids.tolist())) == len(views) == 5
  labelled = {'attacks': ('pgd', 'pgd_dlr=pgd'), 'attack': {'pgd_dlr': {'loss': 'dlr'}}}
  with_labels = AttackError(**labelled, **ball, epsilons=SMALL.epsilons).views(SHAPE)
  assert len(set(with_labels.ids.tolist())) == 5 and with_labels.ids[1] == views.ids[1]


def test_an_attack_has_the_settings_of_its_section_and_the_ball_of_the_study(tmp_path):
  file = tmp_path / 'own.py'
  file.write_text(
    'import dataclasses\n'
    'from robustness.attacks.pgd import PGD\n'
    '@dataclasses.dataclass(frozen=True)\n'
    'class Own(PGD):\n'
    '  confidence: float = 0.0\n'
    '  half_width: float = 5.0\n'
  )
  reference = f'{file}:Own'
  study = AttackError(
    attacks=(reference, f'strong={reference}', 'pgd'),
    attack={'Own': {'steps': 3, 'half_width': 2.0}, 'strong': {'steps': 99}},
    norm='l2',
    epsilon=0.5,
  )
  assert [*study.runs] == ['Own', 'strong', 'pgd']
  default, strong, pgd = study.runs.values()
  assert (default.confidence, default.half_width, default.steps) == (0.0, 2.0, 3)
  assert (strong.steps, strong.half_width, pgd.steps) == (99, 5.0, 10)
  assert {(attack.norm, attack.epsilon) for attack in study.runs.values()} == {('l2', 0.5)}
  other = tmp_path / 'other.py'
  other.write_text(file.read_text())  # results state one digest for each NAME
  message = bad_setting('config.study.attacks', words='two files that define the same NAME')
  refused(message, AttackError, attacks=(reference, f'other={other}:Own'))
  settings = study.describe()['attack']
  inherited = {'step_size': 0.0, 'random_start': True, 'loss': 'cross_entropy'}
  assert settings['Own'] == {'confidence': 0.0, 'half_width': 2.0, 'steps': 3, **inherited}
  assert [*settings] == [*study.runs], 'no settings of attacks that are not run'


SECTION_OF_EARLIER_VERSION = {
  'name': 'attack_error',
  'attacks': ['pgd', 'auto_attack'],
  'losses': ['dlr'],
  'steps': 3,
  'step_size': 0.02,
  'random_start': False,
  'version': 'plus',
  'iterations': 9,
  'queries': 5,
  'norm': 'linf',
  'epsilon': 0.1,
  'epsilons': [0.05],
  'restarts': 1,
  'bandwidth': 0,
}


def test_a_section_of_an_earlier_version_is_read_and_its_keys_are_refused_in_a_run(tmp_path):
  def read(section):
    return recorded_study.study_of_results(section, 'attack_error', {})

  study = read(SECTION_OF_EARLIER_VERSION)
  pgd, ensemble = study.runs.values()
  assert (pgd.steps, pgd.step_size, pgd.random_start, pgd.loss) == (3, 0.02, False, 'dlr')
  assert (ensemble.version, ensemble.iterations, ensemble.queries) == ('plus', 9, 5)
  assert study.radii == (0.05, 0.1)
  two_losses = {
    **SECTION_OF_EARLIER_VERSION,
    'attacks': ['pgd', 'fab'],
    'losses': ['cross_entropy', 'dlr'],
  }
  runs = read(two_losses).runs
  expected = {'pgd_cross_entropy': 'cross_entropy', 'pgd_dlr': 'dlr', 'fab': 'cross_entropy'}
  assert {label: run.loss for label, run in runs.items()} == expected
  recorded = json.loads(json.dumps(study.recording))
  assert AttackError.from_earlier(recorded) == recorded, 'a current section is not changed'
  for key, current_key in (('steps', 'steps'), ('losses', 'loss'), ('queries', 'queries')):
    section = {'name': 'attack_error', key: SECTION_OF_EARLIER_VERSION[key]}
    words = f'now config.study.attack.ATTACK.{current_key}'
    refused(bad_setting(f'config.study.{key}', words=words), studies.from_config, section)
  refused(bad_setting('config.study.steps', 3), read, {'name': 'attack_error', 'steps': 3})
  file = tmp_path / 'own.py'
  file.write_text('raise SystemExit')
  unknown = read({**SECTION_OF_EARLIER_VERSION, 'attacks': [f'{file}:Own']})
  assert isinstance(unknown, recorded_study.RecordedStudy), 'a file that results name is not run'


@pytest.mark.slow
def test_auto_attack_counts_images_by_stage_equally_on_any_devices(tmp_path, caplog):
  budget = {'auto_attack': {'iterations': 3, 'queries': 5}, 'pgd': {'steps': 1}}
  study = AttackError(attacks=('pgd', 'auto_attack'), epsilon=0.03, attack=budget)
  results, first = measured(study, ('first',))
  stage, rank = (first.records.table(name)[:, 2] for name in ('measure/stage', 'rank'))
  errors_after = select(results.table, 'error_after', stage=..., epsilon=...)
  np.testing.assert_allclose(
    errors_after.value, [(stage <= number).mean() for number in range(1, 5)]
  )
  assert errors_after.value.iloc[0] > 0 and errors_after.value.iloc[-1] == (rank > 0).mean() < 1
  by_square = int((stage == 4).sum())
  assert results.tables['flags of AutoAttack'].rows[1][2:4] == [BY_SQUARE, by_square]
  assert ('fall to Square' in caplog.text) == (by_square > 0)
  pmap = parallel.create('pmap')
  by_pmap = recorded(tmp_path / 'pmap', study, classifier('first', 0), rows(), pmap, (40, 3))
  np.testing.assert_array_equal(
    by_pmap.table('measure/stage'), first.records.table('measure/stage')
  )


@dataclasses.dataclass(frozen=True)
class Smoothing:
  """A setting that a user's attack inherits from another class than `Attack`."""

  temperature: float = 1.0


@dataclasses.dataclass(frozen=True)
class SmoothedFab(FAB, Smoothing):
  """An attack with a setting before those of `Attack`."""


def test_the_words_of_an_attack_begin_with_its_first_setting():
  assert SmoothedFab(steps=3).words == '1.0 temperature, 3 steps'


def test_the_words_of_an_error_name_the_norm_and_a_single_attack():
  sections = {'norm': 'linf', 'attacks': ('pgd',)}, {'norm': 'l2', 'attacks': ('pgd', 'fgsm')}
  words = [AttackError(**section).quantities[0].words for section in sections]
  assert words[0] == 'top-1 error under ℓ∞ PGD'
  assert words[1] == 'top-1 error under the worst ℓ2 attack on each image'


RADII = {'epsilon': 0.5, 'epsilons': (1.0,)}
NO_START = {'random_start': False, 'loss': 'dlr'}


@cases(
  'attacks, settings, words',
  ('pgd', {}, 'PGD (10 steps of ε/4) in the ℓ∞ ball of 8/255'),
  ('fgsm fab', {'norm': 'l2', 'epsilon': 0.5}, 'FGSM, FAB (10 steps) in the ℓ2 ball of 0.5'),
  (
    *('pgd', {**RADII, 'attack': {'pgd': {'step_size': 0.1, 'random_start': True}}, 'restarts': 3}),
    'PGD (10 steps of 0.1 at ε = 0.5) in the ℓ∞ ball of 0.5, 1; the worst of 3 random starts',
  ),
  (
    *('pgd square fgsm', {'attack': {'pgd': NO_START, 'square': {'queries': 9}}}),
    'PGD (10 steps of ε/4, no random start, dlr loss), Square (9 queries), FGSM in',
  ),
  ('auto_attack', {}, 'AutoAttack (standard version) in'),
  (
    *('auto_attack', {'attack': {'auto_attack': {'version': 'rand', 'iterations': 5}}}),
    'AutoAttack (rand version, 5 iterations) in',
  ),
  ('auto_pgd', {'norm': 'l1', 'epsilon': 12.0}, 'Auto-PGD (10 steps) in the ℓ1 ball of 12'),
  (
    *('pgd fgsm', {'restarts': 2}),
    'PGD (10 steps of ε/4), FGSM in the ℓ∞ ball of 8/255; the worst of 2 random starts of PGD.',
  ),
)
def test_attacks_are_described_by_their_settings(attacks, settings, words):
  described = AttackError(attacks=tuple(attacks.split()), **settings).shown_as['attacks']
  assert f'{described}.'.startswith(words)


@pytest.fixture(scope='module')
def small_records():
  """Yields records of the attacks of `SMALL` on the first network."""
  results, first = measured(SMALL, ('first',))
  yield first.records


@cases(
  'attacks, settings, expected',
  (('pgd', 'fgsm'), {}, ['pgd and fgsm, not AutoAttack: a lower bound']),
  (('pgd', 'auto_attack'), {}, []),
  (
    ('auto_attack',),
    {'iterations': 5},
    ['AutoAttack of 5 steps and 5000 queries, not AutoAttack: a lower bound'],
  ),
  (('auto_attack',), {'version': 'rand'}, []),
)
def test_errors_under_weaker_attacks_than_auto_attack_are_lower_bounds(
  small_records, attacks, settings, expected
):
  sections = {'auto_attack': settings} if settings else {}
  study = AttackError(attacks=attacks, attack=sections)
  common = Study.differences(study, small_records, SHAPE)
  assert study.differences(small_records, SHAPE) == [*common, *expected]


@pytest.mark.slow
def test_a_headline_notes_that_auto_attack_was_shortened():
  settings = {'auto_attack': {'queries': 20, 'iterations': 2}}
  ball = {'norm': SMALL.norm, 'epsilon': SMALL.epsilon}
  study = AttackError(attacks=('auto_attack',), attack=settings, **ball)
  results, _ = measured(study, ('first',))
  [row] = select(results.table, 'attack_error', epsilon=...).itertuples()
  expected = "AutoAttack of 2 steps and 20 queries, fewer than its authors': a lower bound"
  assert row.note == expected
  assert f'[1] {expected}' in text.summary(results)


def test_images_that_an_attack_leaves_as_they_are_have_no_change():
  settings = {'norm': SMALL.norm, 'epsilon': SMALL.epsilon, 'attack': {'fab': {'steps': 3}}}
  study = AttackError(attacks=('fab',), **settings)
  results, evaluation = measured(study, ('first',))
  wrong = evaluation.records.table('rank') > 0
  norm = evaluation.records.column('measure/energy', 1) ** 0.5
  changed = wrong[:, 1] & (norm > 0)
  assert 0 < changed.sum() < wrong[:, 1].sum(), 'images that were wrong when clean stay as they are'
  row = estimate(results.table, 'first', 'change_norm', attack=..., epsilon=...)
  assert (row.n, row.value) == (changed.sum(), pytest.approx(norm[changed].mean()))
  at_zero = results.arrays['first/spectrum'][0, 0]
  rings = evaluation.records.column('measure/rings', 1)[changed]
  centre = tuple(side // 2 for side in SHAPE[:2])
  assert at_zero[centre] == pytest.approx(rings[:, 0].mean(), rel=1e-4)


def test_radii_below_the_resolution_of_bfloat16_are_reported():
  assert not AttackError(epsilon=1 / 255).lost_in_bfloat16((32, 32, 3))
  lost = AttackError(epsilon=0.0039, epsilons=(0.03,)).lost_in_bfloat16()
  assert 'at least 0.003906 (2**-8 a value), not 0.0039' in lost
  small = AttackError(norm='l2', epsilon=0.2)
  assert not small.lost_in_bfloat16(), 'an ℓ2 radius depends on the size of images'
  assert not small.lost_in_bfloat16((28, 28, 1))
  assert 'at least 0.216506 (2**-8 a value), not 0.2' in small.lost_in_bfloat16((32, 32, 3))


@pytest.mark.parametrize('trained', [False, True])
def test_a_small_l2_ball_is_refused_with_bfloat16_before_a_training_begins(tmp_path, trained):
  config = runs.shrunk('attack_error', 'digits', {'precision': 'bfloat16'})
  config.study.norm, config.study.epsilon, config.study.epsilons = 'l2', 1.0 if trained else 0.1, ()
  config.classifiers.adversarial.attack.pgd.norm = 'l2'
  config.classifiers.adversarial.attack.pgd.epsilon = 0.1
  names = 'config.classifiers.adversarial.attack.pgd.epsilon' if trained else 'config.study.epsilon'
  refused(f'{names} .*at least 0.109375', runs.run, config, tmp_path)
