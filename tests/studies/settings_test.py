"""Settings that studies refuse, each with the key and what is valid."""

from typing import Any

import numpy as np
import pytest

from robustness.core.rows import ArrayRows
from robustness.evaluation.study import STUDIES, from_config
from robustness.fourier.filters import KINDS
from tests.cases import cases
from tests.networks import CLASSES, SHAPE, tiny_rows
from tests.refusals import bad_setting, refused

INF, NAN = float('inf'), float('nan')
REFUSED: dict[str, list[tuple[dict[str, Any], str]]] = {
  'sampled_mce': [
    ({'baseline': 'alexnet_3dcc'}, bad_setting('config.study.baseline', 'alexnet_3dcc')),
    ({'severities': (1,)}, bad_setting('config.study.severities', (1,))),
    ({'corruptions': ('fog',)}, bad_setting('config.study.corruptions', ('fog',))),
    ({'mce_half_width': 0.0}, 'above 0'),
  ],
  'recalibration': [
    ({'scalings': ('vector',) * 2}, bad_setting('config.study.scalings', ('vector', 'vector')))
  ],
  'ood_scores': [({'scores': ('msp', 'msp')}, bad_setting('config.study.scores', ('msp', 'msp')))],
  'accuracy': [({'top_k': 0}, bad_setting('config.study.top_k', 0))],
  'accuracy_by_factor': [
    ({'factors': ('pose', 'pose')}, bad_setting('config.study.factors', ('pose', 'pose'))),
    ({'factors': ()}, bad_setting('config.study.factors', ())),
    ({'bins': 1}, bad_setting('config.study.bins', 1)),
    ({'fewest': 0}, bad_setting('config.study.fewest', 0)),
  ],
  'attack_error': [
    ({'epsilon': 0.0}, bad_setting('config.study.epsilon', 0.0)),
    ({'epsilon': 8.0}, bad_setting('config.study.epsilon', 8.0)),
    ({'epsilons': (0.1, -0.1)}, bad_setting('config.study.epsilons', -0.1)),
    ({'epsilons': (8 / 255,)}, bad_setting('config.study.epsilons', (0.03137254901960784,))),
    ({'attack': {'pgd': {'steps': 0}}}, r'config\.study\.attack\.pgd\.steps is 0'),
    ({'restarts': 0}, bad_setting('config.study.restarts', 0)),
    ({'attack': {'pgd': {'step_size': -1.0}}}, r'study\.attack\.pgd\.step_size is -1\.0'),
    ({'norm': 'l1'}, bad_setting('config.study.norm', 'l1')),
    ({'attacks': ('pdg',)}, r"did you mean 'pgd'"),
    ({'attacks': ()}, bad_setting('config.study.attacks', ())),
    ({'attacks': ('pgd', 'pgd')}, r'config\.study\.attacks is .*distinct'),
    ({'attack': {'pgd': {'loss': 'dlrr'}}}, r"attack\.pgd\.loss is 'dlrr'; did you mean 'dlr'"),
    ({'attack': {'pgd': {'epsilon': 0.1}}}, r'unknown key config\.study\.attack\.pgd\.epsilon'),
    (
      {'attack': {'fgsm': {'steps': 7}}},
      r"unknown key config\.study\.attack\.fgsm\.steps: .*'loss'",
    ),
    ({'attack': {'pgdd': {}}}, "names 'pgdd'; did you mean 'pgd'"),
    ({'attack': {'pgd': 3}}, bad_setting('config.study.attack.pgd', 3)),
    (
      {'attack': {'auto_attack': {'version': 'fast'}}},
      r"auto_attack\.version is 'fast'.*'standard'",
    ),
    ({'attack': {'square': {'loss': 'dlr'}}}, r"attack\.square\.loss is 'dlr'.*loss of its own"),
    ({'attacks': ('auto_attack',), 'restarts': 5}, r'restarts is 5; it must be 1, as auto_attack'),
  ],
  'band_noise': [
    (
      {'kinds': ('lowpass',)},
      bad_setting('config.study.kinds', 'lowpass', words="did you mean 'low_pass'"),
    ),
    ({'kinds': ()}, bad_setting('config.study.kinds', ())),
    ({'bandwidths': (3, 3)}, bad_setting('config.study.bandwidths', (3, 3))),
    ({'bandwidths': (0,)}, bad_setting('config.study.bandwidths', (0,))),
    ({'norm': 0.0}, bad_setting('config.study.norm', 0.0)),
  ],
  'calibration': [
    ({'bins': 0}, bad_setting('config.study.bins', 0)),
    ({'resamples': 0}, bad_setting('config.study.resamples', 0)),
  ],
  'corruption_error': [
    (
      {'corruptions': ('frost', 'mosaic'), 'photographs': 'imagecorruptions'},
      bad_setting('config.study.photographs', 'imagecorruptions'),
    ),
    (
      {'corruptions': ('fogg',)},
      bad_setting('config.study.corruptions', 'fogg', words="did you mean 'fog'"),
    ),
    ({'corruptions': ()}, bad_setting('config.study.corruptions', ())),
    ({'severities': (0, 1)}, 'distinct numbers of 1..5'),
    ({'severities': (1, 1)}, 'distinct numbers of 1..5'),
    ({'quantize': 'ceil'}, bad_setting('config.study.quantize', 'ceil')),
    ({'between': (5.5,)}, bad_setting('config.study.between', 5.5)),
    ({'between': (0.9,)}, bad_setting('config.study.between', 0.9)),
    ({'between': (NAN,)}, bad_setting('config.study.between')),
    ({'between': (2.0,)}, bad_setting('config.study.between', 2.0)),
    ({'between': (2.00001,)}, bad_setting('config.study.between', 2.00001)),
    ({'between': (3.5, 2.5)}, bad_setting('config.study.between', (3.5, 2.5))),
    ({'between': (1.5,), 'source': 'stored'}, bad_setting('config.study.between', (1.5,))),
    (
      {'protocol': 'as_released', 'source': 'stored'},
      bad_setting('config.study.protocol', 'as_released'),
    ),
    ({'failure_share': 1.0}, bad_setting('config.study.failure_share', 1.0)),
    (
      {'protocol': 'released'},
      bad_setting('config.study.protocol', 'released', words="did you mean 'as_released'"),
    ),
    (
      {'protocol': 'as_released', 'quantize': 'round'},
      bad_setting('config.study.quantize', 'round'),
    ),
    ({'baseline': 'alexnet', 'corruptions': ('fog',)}, r"corruptions is \('fog',\)"),
    ({'baseline': 'alexnet', 'severities': (1, 5)}, r'severities="\(1, 2, 3, 4, 5\)"'),
  ],
  'corruption_spectrum': [
    (
      {'channels': 'gray'},
      bad_setting('config.study.channels', 'gray', words="did you mean 'grey'"),
    ),
    ({'normalisation': 'ortho'}, bad_setting('config.study.normalisation', 'ortho')),
    (
      {'corruptions': ('fogg',)},
      bad_setting('config.study.corruptions', 'fogg', words="did you mean 'fog'"),
    ),
  ],
  'flip_rate': [
    ({'lowest': 0.5}, bad_setting('config.study.lowest', 0.5)),
    ({'highest': 6.0}, bad_setting('config.study.highest', 6.0)),
    ({'lowest': 5.0}, bad_setting('config.study.lowest', 5.0)),
    ({'frames': 1}, bad_setting('config.study.frames', 1)),
    (
      {'corruptions': ('fogg',)},
      bad_setting('config.study.corruptions', 'fogg', words="did you mean 'fog'"),
    ),
  ],
  'fourier_attack': [
    ({'norm': -1.0}, bad_setting('config.study.norm', -1.0)),
    ({'queries': 0}, bad_setting('config.study.queries', 0)),
    ({'phase': 'sine'}, bad_setting('config.study.phase', 'sine')),
  ],
  'fourier_heatmap': [
    *(({'norm': bad}, 'norm is .* a finite number above 0') for bad in (0.0, -1.0, INF, NAN)),
    *(({'half_width': bad}, 'config.study.half_width') for bad in (-0.1, 0.5, NAN)),
    ({'phase': 'sine'}, bad_setting('config.study.phase', 'sine', words="did you mean 'cosine'")),
    ({'top_k': 0}, bad_setting('config.study.top_k', 0)),
    ({'classes': ('ant', 'ant')}, bad_setting('config.study.classes', ('ant', 'ant'))),
    ({'classes': ('all', 'ant')}, bad_setting('config.study.classes', ('all', 'ant'))),
    ({'false_discovery_rate': 0.0}, bad_setting('config.study.false_discovery_rate', 0.0)),
  ],
  'perturbation_stability': [
    (
      {'perturbations': ('tild',)},
      bad_setting('config.study.perturbations', 'tild', words="did you mean 'tilt'"),
    ),
    ({'perturbations': ()}, bad_setting('config.study.perturbations', ())),
    ({'baseline': 'resnet'}, bad_setting('config.study.baseline', 'resnet')),
    (
      {'baseline': 'alexnet', 'perturbations': ('tilt',)},
      bad_setting('config.study.perturbations', ('tilt',)),
    ),
  ],
  'si_score': [
    ({'factor': 'sizes'}, bad_setting('config.study.factor', 'sizes', words="did you mean 'size'")),
    ({'factor': 'cross', 'areas': (0.0,)}, 'above 0'),
    ({'factor': 'cross', 'xs': (2.0, 3.0)}, 'reaches into the image'),
    ({'min_inside': 1.5}, bad_setting('config.study.min_inside', 1.5)),
    ({'measure': 'box'}, bad_setting('config.study.measure', 'box')),
    ({'areas': (0.2, 0.2)}, bad_setting('config.study.areas', (0.2, 0.2))),
    ({'xs': ()}, bad_setting('config.study.xs', ())),
    ({'cells': 0, 'factor': 'grid'}, bad_setting('cells', 0)),
  ],
  'video_pm_k': [
    ({'k': 0}, bad_setting('config.study.k', 0)),
    ({'failures': -1}, bad_setting('config.study.failures', -1)),
    ({'label_rule': 'frames'}, bad_setting('config.study.label_rule', 'frames')),
    ({'merge': 'mix'}, bad_setting('config.study.merge', 'mix')),
    ({'testbed': 'vid'}, bad_setting('config.study.testbed', 'vid')),
    ({'testbed': 'ytbb_robust', 'k': 5}, bad_setting('config.study.k', 5)),
  ],
  'systematic': [
    ({'environments': ('rotation',), 'angles': (30,)}, bad_setting('config.study.angles', (30,))),
    ({'environments': ('noise',)}, bad_setting('config.study.environments', 'noise')),
  ],
  'tradeoff': [
    ({'corruptions': ('fog', 'snow')}, bad_setting('config.study.corruptions', ('fog', 'snow'))),
    ({'corruptions': ()}, bad_setting('config.study.corruptions', ())),
  ],
}


RGB = (32, 32, 3)
NO_SQUARE = 'bandwidth is 14; .* on 32 pixels takes an odd number .* is symmetric'
UNFIT: list[tuple[str, dict[str, Any], tuple[int, int, int], str]] = [
  ('attack_error', {'bandwidth': 26}, RGB, 'takes an odd number'),
  *(
    (name, {'kinds': (kind,), 'bandwidths': (14,)}, RGB, NO_SQUARE)
    for name in ('band_noise', 'filtered_accuracy')
    for kind in KINDS
  ),
  ('corruption_error', {'corruptions': ('glass_blur',)}, (2, 2, 3), 'glass_blur'),
  (
    *('corruption_error', {'baseline': 'alexnet', 'constants': 224}, RGB),
    bad_setting('config.study.baseline', 'alexnet'),
  ),
  (
    'corruption_error',
    {'baseline': 'alexnet', 'source': 'stored'},
    RGB,
    bad_setting('config.study.baseline', 'alexnet'),
  ),
  (
    *('corruption_error', {'baseline': 'cifar10_standard'}, (224, 224, 3)),
    bad_setting('config.study.baseline', 'cifar10_standard'),
  ),
  ('corruption_spectrum', {'bandwidth': 26}, RGB, 'takes an odd number'),
  ('fourier_attack', {'queries': 99}, SHAPE, bad_setting('config.study.queries', 99)),
  *(
    ('fourier_heatmap', {'window': side}, SHAPE, bad_setting('config.study.window', side))
    for side in (6, -1)
  ),
  ('si_score', {}, (32, 40, 3), 'square and in colour'),
  ('systematic', {'environments': ('rotation',)}, (8, 6, 3), 'square'),
]
"""Study, settings, shape of images, and what is refused of them."""


@cases(
  'name, settings, message',
  *((name, *each) for name in REFUSED for each in REFUSED[name]),
  *(
    (name, {'confidence': 1.0}, bad_setting('config.study.confidence', 1.0))
    for name in STUDIES.classes()
  ),
)
def test_bad_settings_are_refused(name, settings, message):
  refused(message, from_config, {'name': name, **settings})


@pytest.mark.parametrize(('name', 'settings', 'shape', 'message'), UNFIT)
def test_settings_that_do_not_fit_the_images_are_refused_first(name, settings, shape, message):
  refused(message, from_config({'name': name, **settings}).views, shape)


@pytest.mark.parametrize('name', ['attack_error', 'fourier_preview'])
def test_gradients_need_rows_of_one_label(name):
  data, study = tiny_rows(4), from_config({'name': name})
  several = np.stack([data.labels, -1 + 0 * data.labels], 1)
  refused('several labels each', study.check, ArrayRows(data.images, several, CLASSES), {})
  study.check(data, {})
