"""Tests corruptions by name: ranges, keys, batches, sizes, severities, one compile, bad input."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from robustness.corruptions import NAMES, TABLES, apply, catalog, corrupt, corrupt_each, textures
from robustness.corruptions.catalog import CORRUPTIONS
from robustness.corruptions.names import NUMBERS, SEVERITIES
from robustness.corruptions.views import CorruptionOptions
from tests.cases import cases, marked
from tests.corruptions.pictures import natural, share_within, write_photographs
from tests.emitters import needs_usual_emitters
from tests.refusals import bad_setting, refused

DETERMINISTIC = (
  *('defocus_blur', 'zoom_blur', 'brightness', 'contrast', 'pixelate', 'jpeg_compression'),
  *('gaussian_blur', 'saturate'),
)
"""Corruptions without random numbers."""
QUICK = ('gaussian_noise', 'motion_blur', 'frost', 'contrast', 'jpeg_compression')
"""Corruptions that are tested in the fast run too; the others are slow."""
VARIANTS = {
  name: next(iter(corruption.options.items()))
  for name, corruption in CORRUPTIONS.items()
  if any(corruption.options.values())
}
"""The first option of each corruption that has options, and its values with the default first."""
KEY = jax.random.key(11)


def test_each_corruption_has_another_number():
  numbers = sorted(NUMBERS.values())
  shared = [name for name, number in NUMBERS.items() if numbers.count(number) > 1]
  assert not shared, f'{shared}: give the new one the next number, {numbers[-1] + 1}'


@functools.cache
def batch() -> np.ndarray:
  """Returns two random pictures, a black and a white image, float32 [4, 32, 32, 3]."""
  pictures = [natural(32, 32, seed=s) for s in range(2)]
  return np.stack([*pictures, np.zeros_like(pictures[0]), np.ones_like(pictures[0])])


@pytest.mark.parametrize('name', [*NAMES, 'lines', 'brownish_noise'])
def test_batches_of_mixed_severities_are_in_range_and_depend_on_the_key_where_random(name):
  severity = np.array([1, 5, 3, 5], np.int32)
  keys = (KEY, KEY, jax.random.key(12))
  first, again, other = (np.asarray(corrupt(key, batch(), name, severity)) for key in keys)
  assert first.dtype == np.float32 and first.shape == batch().shape
  assert np.isfinite(first).all() and first.min() >= 0 and first.max() <= 1
  assert np.abs(first - batch())[:2].max((1, 2, 3)).min() > 0.01
  np.testing.assert_array_equal(first, again)
  assert (first == other).all() == (name in DETERMINISTIC)


@pytest.mark.slow
@pytest.mark.parametrize('name', ['shot_noise', 'glass_blur', 'fog'])
def test_an_image_does_not_depend_on_the_rest_of_its_batch(name):
  severity = np.array([1, 5, 3, 5], np.int32)
  full = np.asarray(corrupt(KEY, batch(), name, severity))
  shorter = np.asarray(corrupt(KEY, batch()[:2], name, severity[:2]))
  np.testing.assert_allclose(shorter, full[:2], atol=1e-6)
  alone = corrupt(jax.random.fold_in(KEY, 1), batch()[1], name, 5)
  # Rounding may move a value across the border of a level, which is rare.
  assert np.mean(np.abs(np.asarray(alone) - full[1]) > 1e-5) < 1e-3


@pytest.mark.parametrize('channels', [1, pytest.param(3, marks=pytest.mark.shared_bits)])
@pytest.mark.parametrize('name', marked(NAMES, QUICK))
def test_an_oblong_or_grey_image_is_the_same_under_vmap_and_by_itself(name, channels):
  images = np.stack([natural(20, 26, channels, seed=s) for s in range(2)])
  keys = jax.random.split(KEY, 2)
  single = jax.jit(lambda key, x, s: CORRUPTIONS[name](key, x, s, TABLES[32][name]))
  batched = jax.jit(jax.vmap(single, (0, 0, None)))
  for severity in (1, 4, 5):
    corrupted = np.asarray(batched(keys, images, severity))
    assert corrupted.shape == images.shape and corrupted.dtype == np.float32
    assert corrupted.min() >= 0 and corrupted.max() <= 1
    alone = np.stack([single(k, x, severity) for k, x in zip(keys, images, strict=True)])
    assert share_within(corrupted, alone, 0.1) >= 0.999


@pytest.mark.shared_bits
def test_one_compile_shows_every_corruption_and_severity():
  traces = []

  def show(index: jax.Array, severity: jax.Array) -> jax.Array:
    traces.append(index)
    return apply(KEY, jnp.asarray(batch()[0]), index, severity, quantize='floor')

  compiled = jax.jit(show)
  for index, name in enumerate(NAMES):
    shown = np.asarray(compiled(index, 3))
    np.testing.assert_allclose(shown * 255, np.round(shown * 255), atol=1e-4)
    if name in ('shot_noise', 'zoom_blur', 'contrast', 'saturate'):
      by_name = np.asarray(corrupt(KEY, batch()[0], name, 3, quantize='floor'))
      # Rounding may move a value across the border of a level, which is rare.
      assert np.mean(np.abs(shown - by_name) > 1e-5) < 2e-3, name
    distinct = {np.asarray(compiled(index, severity)).tobytes() for severity in SEVERITIES}
    if name in ('gaussian_noise', 'zoom_blur'):
      assert len(distinct) == 5
  assert len(traces) == 1


@pytest.mark.parametrize('quantize', ['floor', 'round'])
def test_quantized_results_are_levels(quantize):
  exact = np.asarray(corrupt(KEY, batch(), 'gaussian_noise', 3), np.float64) * 255
  levels = np.asarray(corrupt(KEY, batch(), 'gaussian_noise', 3, quantize=quantize)) * 255
  np.testing.assert_allclose(levels, np.round(levels), atol=1e-4)
  bias = (levels - exact)[(exact > 0) & (exact < 255)].mean()
  assert abs(bias - (-0.5 if quantize == 'floor' else 0)) < 0.02
  flat = np.full((32, 32, 3), 100 / 255, np.float32)
  shifted = np.asarray(corrupt(KEY, flat, 'brightness', 1, quantize, side=224)) * 255
  # A brightness of 0.1 shifts the level 100 to 125.5.
  np.testing.assert_allclose(shifted, 125 if quantize == 'floor' else 126, atol=1e-3)
  blurred = corrupt(KEY, flat, 'gaussian_blur', 3, quantize) * 255
  assert blurred.min() > 99.99, 'a blur slightly below the level 100 is not floored to 99'


def test_side_selects_the_constants_of_images_of_another_size():
  flat = np.full((32, 32, 3), 0.5, np.float32)
  images = [np.asarray(corrupt(KEY, flat, 'gaussian_noise', 1, side=s)) for s in (None, 32, 224)]
  default, small, large = (image.std() for image in images)
  assert default == small
  np.testing.assert_allclose(large / small, 0.08 / 0.04, rtol=0.02)  # the published deviations


@pytest.mark.slow
@pytest.mark.parametrize('name', VARIANTS)
def test_an_option_changes_the_picture_and_its_default_does_not(name):
  option, values = VARIANTS[name]
  picture = np.random.default_rng(0).random((40, 52, 3), np.float32)
  settings = ({}, *({option: value} for value in values))
  pictures = [np.asarray(corrupt(KEY, picture, name, 4, side=224, **each)) for each in settings]
  plain, *variants = pictures
  np.testing.assert_array_equal(variants[0], plain)
  assert np.abs(variants[1] - plain).max() > 0.02
  refused(f"{option} is 'none'", corrupt, KEY, picture, name, 4, **{option: 'none'})


def test_options_are_listed_where_they_differ_from_the_defaults():
  assert CorruptionOptions().non_default() == {}
  options = CorruptionOptions(motion_blur='fixed', glass_blur='swap').non_default()
  assert options == {'motion_blur': {'angle': 'fixed'}, 'glass_blur': {'exchange': 'swap'}}
  refused(bad_setting('config.study.options.fog', 'thick'), CorruptionOptions, fog='thick')


@pytest.mark.slow
@pytest.mark.parametrize('name', ['gaussian_noise', 'shot_noise', 'brightness', 'ripple'])
def test_a_severity_between_two_lies_between_them(name):
  images = np.repeat(batch()[:1], 4, 0)
  mixed = np.asarray(corrupt(KEY, images, name, np.array([2.0, 2.0, 2.5, 3.0])))
  np.testing.assert_array_equal(mixed[:2], corrupt(KEY, images[:2], name, 2))
  alone = np.asarray(corrupt(KEY, images[0], name, 2.5))
  low, high = (
    np.abs(np.asarray(corrupt(KEY, images[0], name, severity)) - images[0]).mean()
    for severity in (2, 3)
  )
  assert low < np.abs(alone - images[0]).mean() < high


@cases('severity', 0, 0.5, 6.5)
def test_severities_outside_the_five_are_refused(severity):
  image = np.full((32, 32, 3), 0.5, np.float32)
  refused('are in', apply, KEY, image, 0, 6, names=('fog',), between=(severity,))


def test_severities_between_the_five_are_numbered_and_not_traced():
  numbers, between = catalog.number_severities(np.array([1, 2.5, 5, 1.25, 2.5]))
  assert numbers.tolist() == [1, 7, 5, 6, 7] and between == (1.25, 2.5)
  image = batch()[0]
  show = functools.partial(apply, KEY, image, 0, names=('brightness',), between=(2.5,))
  shift = TABLES[32]['brightness']['shift']
  assert np.abs(show(6) - show(2)).max() == pytest.approx((shift[2] - shift[1]) / 2, abs=1e-3)
  refused(r'severity is 7; it must be an integer in 1\.\.6', show, 7)
  refused('traced and no integer', jax.jit(lambda s: corrupt(KEY, image, 'brightness', s)), 2.5)


def test_bad_input_is_named():
  for change, message in (
    (
      {'name': 'gausian_noise'},
      bad_setting('name', 'gausian_noise', words="did you mean 'gaussian_noise'"),
    ),
    ({'name': ['fog']}, bad_setting('name', ['fog'])),
    ({'name': 3}, bad_setting('name', 3)),
    ({'name': 'lines', 'images': np.zeros((8, 5, 3))}, 'defined: crop them.$'),
    ({'name': 'plasma_noise'}, 'of another size, one of 224, 299 .*side= of corrupt'),
    ({'severity': 0}, 'severity is 0; it must be an integer in 1..5'),
    ({'severity': np.array([1, 2, 6, 1])}, 'severity is 6'),
    ({'severity': 5.5}, r'severity is 5\.5; it must be in \[1, 5\]'),
    ({'severity': np.array([1, 0.5, 2, 2])}, r'severity is 0\.5; it must be in'),
    ({'severity': np.nan}, 'severity is nan; it must be in'),
    (
      {'name': 'elastic_transform', 'severity': 1.5, 'variant': 'imagecorruptions'},
      'for the five severities alone; got 1.5',
    ),
    ({'severity': np.array([1, 2])}, r'severity has the shape \(2,\).*each image: \(4,\)'),
    ({'images': np.zeros((4, 32, 32, 3), np.uint8)}, 'images are uint8.*Divide 8-bit images by'),
    ({'images': np.full((32, 32, 3), 255.0)}, 'values from 255 to 255.*divide 8-bit'),
    ({'images': np.full((32, 32, 3), np.nan)}, 'values from nan'),
    ({'images': np.zeros((32, 32))}, r'shape \(32, 32\); corruptions take \[H, W, C\]'),
    ({'images': np.zeros((3, 32, 32))}, 'with 1 or 3 channels last'),
    ({'images': np.zeros((4, 32, 32, 4))}, 'with 1 or 3 channels last.$'),
    ({'images': np.zeros((0, 32, 32, 3))}, 'nothing to change'),
    ({'quantize': 'ceil'}, bad_setting('quantize', 'ceil')),
    ({'exchange': 'swap'}, "gaussian_noise has no option 'exchange': it has no options"),
    ({'name': 'glass_blur', 'exchanges': 'swap'}, "no option 'exchanges': did you mean 'exch"),
    (
      {'name': 'glass_blur', 'images': np.zeros((8, 5, 3)), 'side': 224},
      '8 × 5 pixels are too small for glass_blur: it needs 9 or more a side, or no pixel',
    ),
    ({'name': 'zoom_blur', 'images': np.zeros((1, 5, 3))}, 'no centre to enlarge'),
    ({'name': 'elastic_transform', 'images': np.zeros((2, 5, 3))}, 'triangle'),
  ):
    arguments = {'images': batch(), 'name': 'gaussian_noise', 'severity': 3} | change
    refused(message, corrupt, KEY, **arguments)


def test_values_beyond_the_range_by_rounding_are_clipped():
  exact = corrupt(KEY, np.ones((8, 8, 3), np.float32), 'contrast', 3)
  near = corrupt(KEY, np.full((8, 8, 3), 1 + 1e-6, np.float32), 'contrast', 3)
  np.testing.assert_array_equal(near, exact)
  beyond = np.full((8, 8, 3), 1.01, np.float32)
  refused(r'values from 1\.00999999 to 1\.00999999', corrupt, KEY, beyond, 'contrast', 3)


def test_pytorch_tensors_are_read_and_refused_with_channels_first():
  torch = pytest.importorskip('torch', reason='needs torch')
  ours = corrupt(KEY, batch(), 'shot_noise', np.array([1, 2, 3, 4]))
  images = torch.from_numpy(batch()).requires_grad_()
  theirs = corrupt(KEY, images, 'shot_noise', torch.tensor([1, 2, 3, 4]))
  np.testing.assert_array_equal(theirs, ours)
  message = r'Move the channels last: np\.moveaxis\(images, -3, -1\)'
  refused(message, corrupt, KEY, torch.ones(2, 3, 8, 8), 'contrast', 1)


def test_a_key_may_be_a_seed():
  noisy = functools.partial(corrupt, images=batch(), name='gaussian_noise', severity=2)
  for key in (jax.random.key(7), jax.random.PRNGKey(7)):
    np.testing.assert_array_equal(noisy(7), noisy(key))
  for key in (-1, 2.0, 'seed', True):
    refused('key is .*must be a random key.* or a seed', noisy, key)
  refused(r'key has the shape \(4,\)', noisy, jax.random.split(KEY, 4))


@pytest.mark.slow
@pytest.mark.parametrize(('severity', 'quantize'), [(0, None), (6, 'floor'), (-1, None)])
def test_a_traced_severity_or_index_that_does_not_exist_gives_nan(severity, quantize):
  function = jax.jit(lambda s: corrupt(KEY, batch(), 'brightness', s, quantize))
  assert np.isnan(function(severity)).all() and np.isfinite(function(5)).all()
  mixed = jax.jit(lambda i: corrupt_each(KEY, batch(), i, 3, quantize, names=('fog', 'snow')))
  broken = np.isnan(mixed(np.array([0, 2, 1, -1]))).all((1, 2, 3))
  assert broken.tolist() == [False, True, False, True]


def test_draws_do_not_depend_on_a_flag_of_jax():
  pinned = np.asarray(corrupt(KEY, batch(), 'elastic_transform', 4))
  with jax.threefry_partitionable(False):
    np.testing.assert_array_equal(corrupt(KEY, batch(), 'elastic_transform', 4), pinned)
    inside = jax.jit(lambda key: corrupt(key, batch(), 'elastic_transform', 4))(KEY)
  np.testing.assert_allclose(inside, pinned, atol=1e-6)


@pytest.mark.shared_bits
@pytest.mark.parametrize('name', ['gaussian_noise', 'frost', 'fog', 'lines', 'sparkles'])
def test_images_do_not_depend_on_64_bits(name):
  severity = np.array([1, 5, 3, 5])
  expected = np.asarray(corrupt(11, batch(), name, severity, 'floor'))
  with jax.enable_x64(True):
    made = corrupt(11, batch(), name, severity, 'floor')
  assert made.dtype == np.float32
  np.testing.assert_array_equal(made, expected)


@pytest.mark.slow
def test_photographs_come_from_a_folder_a_package_or_arrays(tmp_path, monkeypatch):
  package = tmp_path / 'imagecorruptions'
  (package / 'frost').mkdir(parents=True)
  write_photographs(package / 'frost')
  (package / '__init__.py').write_text('')
  monkeypatch.syspath_prepend(str(tmp_path))
  arrays = textures.load_photographs(str(package / 'frost'))
  expected = np.asarray(corrupt(3, batch(), 'frost', 5, photographs=arrays))
  for source in ('imagecorruptions', str(package / 'frost'), package / 'frost'):
    np.testing.assert_array_equal(corrupt(3, batch(), 'frost', 5, photographs=source), expected)
  procedural = corrupt(3, batch(), 'frost', 5)
  named = corrupt(3, batch(), 'frost', 5, photographs='procedural')
  np.testing.assert_array_equal(named, procedural)
  assert np.abs(expected - procedural).max() > 0.05

  broken, message = [np.zeros((9, 9))], r'an entry of shape \(9, 9\), float64'
  refused(message, corrupt, 3, batch(), 'frost', 5, photographs=broken)
  iterated = corrupt(3, batch(), 'frost', 5, photographs=(picture for picture in arrays))
  np.testing.assert_array_equal(iterated, expected)
  for invalid in (5, ()):
    refused('photographs are .*; give uint8', corrupt, 3, batch(), 'frost', 5, photographs=invalid)


@pytest.mark.shared_bits
@needs_usual_emitters
def test_photographs_are_an_option_of_mixed_batches(tmp_path):
  write_photographs(tmp_path)
  options = {'frost': {'photographs': str(tmp_path)}}
  mixed = corrupt_each(3, batch(), np.zeros(4, int), 5, names=('frost', 'fog'), options=options)
  alone = corrupt(3, batch(), 'frost', 5, photographs=tmp_path)
  np.testing.assert_array_equal(mixed, alone)


@pytest.mark.shared_bits
def test_each_image_of_a_batch_may_have_another_corruption():
  names, index = ('gaussian_noise', 'fog', 'jpeg_compression'), np.array([2, 0, 1, 0])
  severity = np.array([1, 5, 3, 2])
  mixed = np.asarray(corrupt_each(KEY, batch(), index, severity, 'floor', names=names))
  for number, name in enumerate(names):
    alone = np.asarray(corrupt(KEY, batch(), name, severity, 'floor'))
    np.testing.assert_array_equal(mixed[index == number], alone[index == number])


def test_bad_input_of_a_mixed_batch_is_named():
  for change, message in (
    ({'index': np.array([0, 1, 2, 0])}, r'index is 2; it must be an integer in 0\.\.1'),
    ({'index': np.array([0, 1])}, r'index has the shape \(2,\).*each image: \(4,\)'),
    ({'names': ()}, 'names are empty'),
    ({'options': {'fog': None}}, r'options of fog are None; they must be \{option: value\}'),
    ({'options': {'frost': {}}}, bad_setting('options', 'frost')),
    ({'images': np.zeros((8, 8, 3))}, r'take \[B, H, W, C\] with 1 or 3'),
  ):
    index, names = np.array([0, 1, 1, 0]), ('fog', 'snow')
    arguments = {'images': batch(), 'index': index, 'severity': 3, 'names': names} | change
    refused(message, corrupt_each, KEY, **arguments)


def test_bad_input_of_apply_is_named():
  for change, message in (
    ({'image': np.zeros((32, 32, 3), np.uint8)}, 'images are uint8.*Divide 8-bit images by 255'),
    ({'image': np.full((32, 32, 3), 200.0)}, 'values from 200 to 200'),
    ({'image': np.zeros((2, 32, 32, 3))}, r'take \[H, W, C\] .*Take jax.vmap or corrupt_each'),
    ({'index': 19}, r'index is 19; it must be an integer in 0\.\.18'),
    ({'severity': 9}, 'severity is 9'),
    ({'key': 'seed'}, "key is 'seed'"),
    (
      {'image': np.zeros((4, 4, 3)), 'names': ('glass_blur',), 'side': 224},
      '4 × 4 pixels are too small for glass_blur',
    ),
    ({'names': ('snw',)}, bad_setting('name', 'snw', words="did you mean 'snow'")),
  ):
    arguments = {'key': KEY, 'image': batch()[0], 'index': 0, 'severity': 3} | change
    refused(message, apply, **arguments)
  refused('images are uint8', jax.jit(lambda x: apply(KEY, x, 0, 3)), np.zeros((8, 8, 3), np.uint8))
