"""CoTTA: a teacher with averaged weights and predictions, and random returns to the source."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
from flax import linen as nn
from jax.scipy.ndimage import map_coordinates

from robustness.core.registry import setting
from robustness.core.typing import PyTree
from robustness.models.adaptation import ImageBatch, Layers, Result, log_probabilities
from robustness.models.adaptation.tent import Predict, Tent


@dataclasses.dataclass(frozen=True)
class Cotta(Tent):
  """CoTTA: a student learns from a teacher, and the teacher predicts.

  If the mean confidence of the trained network on a batch is below a threshold, the teacher's
  logits are averaged over randomly augmented images (`random_view`). Otherwise they are for the
  images as they are. After each batch:

  * The student takes a step along the gradient of the cross-entropy to the teacher. All parameters
    are trained.
  * The teacher's weights become a moving average of the student's.
  * Each weight of the student returns to its trained value with a small probability.

  The defaults are from the authors' code for CIFAR-10. Their code for ImageNet has
  `optimizer='sgd'` with a rate of .01, batches of 64, a threshold of .1, a probability of .001 and
  `is_symmetric=True`. As in their code, all images of a batch are augmented in the same way.

  Attributes:
    threshold: mean confidence of the trained network below which augmented images are averaged.
    num_views: number of augmentations.
    decay: decay of the moving average, the factor of the teacher's previous weights.
    restored: probability with which a weight returns to its trained value after a step.
    is_symmetric: whether half of the loss is the cross-entropy of the teacher to the student.

  Reference:
    Wang et al. (2022), Continual Test-Time Domain Adaptation, equations 1 to 8.
  """

  kinds = (nn.Module,)
  adapts = 'the parameters of all layers'

  threshold: float = setting(0.92, 'in [0, 1]', lambda x: 0 <= x <= 1)
  num_views: int = setting(32, 'at least 1', lambda x: x >= 1, only_with=('threshold',))
  decay: float = setting(0.999, 'in [0, 1)', lambda x: 0 <= x < 1)
  restored: float = setting(0.01, 'in [0, 1]', lambda x: 0 <= x <= 1)
  is_symmetric: bool = False

  def is_learnt(self, path: tuple[str, ...], layers: Layers) -> bool:
    """Returns True: all parameters adapt."""
    return True

  def begin(self, variables: PyTree, layers: Layers, num_classes: int) -> PyTree:
    """Returns the initial state: all parameters, optimizer state and the teacher's weights."""
    state = super().begin(variables, layers, num_classes)
    return {**state, 'teacher': state['weights']}

  def step(self, predict: Predict, trained: PyTree, state: PyTree, batch: ImageBatch) -> Result:
    """Takes one step, and returns the teacher's outputs before it and the state after it.

    Args:
      predict: function (adapted weights, images) -> outputs, from `bound`.
      trained: {path: weight} before adaptation.
      state: the state before the step.
      batch: the images.
    """
    images = batch.images
    key_views, key_restored = jax.random.split(batch.keys[0])
    trained_logits, _ = predict({}, images)  # {}: no weight differs from its trained value
    confidence = batch.mean(jax.nn.softmax(trained_logits).max(-1))
    logits_of_images, outputs = predict(state['teacher'], images)

    def logits_of_view(key: jax.Array) -> jax.Array:
      """Returns the teacher's logits for a random augmentation of the images."""
      return predict(state['teacher'], random_view(key, images))[0]  # without outputs of layers

    def mean_logits_of_views() -> jax.Array:
      """Returns the teacher's mean logits over random augmentations of the images."""
      return jax.lax.map(logits_of_view, jax.random.split(key_views, self.num_views)).mean(0)

    is_unsure = confidence < self.threshold
    target = jax.lax.cond(is_unsure, mean_logits_of_views, lambda: logits_of_images)
    log_q = log_probabilities(target)

    def loss(logits: jax.Array) -> tuple[jax.Array, None]:
      """Returns the mean cross-entropy between the student and the teacher, and None.

      The student is the network that is adapted, the teacher the moving average of its weights,
      with log-probabilities `log_q`. If `is_symmetric`, the loss averages the cross-entropies in
      both directions; otherwise the teacher's probabilities are the target.

      Args:
        logits: the student's logits, [B, classes].
      """
      log_p = log_probabilities(logits)
      to_teacher = -(jnp.exp(log_q) * log_p).sum(-1)  # cross-entropies
      to_student = -(jnp.exp(log_p) * log_q).sum(-1)
      return batch.mean((to_teacher + to_student) / 2 if self.is_symmetric else to_teacher), None

    gradient, _, _ = self.gradient(predict, state['weights'], batch, loss)
    stepped = self.updated(state, gradient)
    teacher, weights = dict(state['teacher']), dict(stepped['weights'])
    # the teacher's moving average, then random returns of the student's weights
    for number, path in enumerate(sorted(weights)):
      teacher[path] = self.decay * teacher[path] + (1 - self.decay) * weights[path]
      key = jax.random.fold_in(key_restored, number)
      is_restored = jax.random.bernoulli(key, self.restored, weights[path].shape)
      weights[path] = jnp.where(is_restored, trained[path], weights[path])
    return (target, outputs), {**stepped, 'weights': weights, 'teacher': teacher}


def random_view(key: jax.Array, images: jax.Array) -> jax.Array:
  """Augments all images of a batch [B, H, W, C] in the same random way, in [0, 1].

  The augmentations follow the authors' code:

  * colours, in a random order: factors of brightness in [.6, 1.4], contrast in [.7, 1.3] and
    saturation in [.5, 1.5], a turn of the hue by up to 21.6°, and a gamma in [.7, 1.3]; images
    without three channels keep saturation and hue
  * a rotation by up to 15°
  * a move by whole pixels, up to 1/8 of the sides (the authors' code says 1/16, of images that
    margins have made twice as large)
  * a scale in [.9, 1.1], with edges continued
  * a blur of 5 × 5 pixels with a standard deviation of up to .5 pixels
  * a mirror image with probability ½
  * noise with a standard deviation of .005
  """
  # the sixth key is unused; a split into five would change the other keys, and thus all results
  key_amounts, key_order, key_geometry, key_mirror, key_noise, _ = jax.random.split(key, 6)
  # ranges of brightness, contrast, saturation, turns of the hue, and gamma; then a draw of each
  low, high = jnp.array([[0.6, 0.7, 0.5, -0.06, 0.7], [1.4, 1.3, 1.5, 0.06, 1.3]])
  amounts = low + (high - low) * jax.random.uniform(key_amounts, (5,))
  x = jnp.clip(images, 0, 1)
  x = _jittered(key_order, x, amounts)
  # rotation, moves and scale, and the deviation of the blur: five numbers in [−1, 1]
  angle, down, right, scale, sigma = jax.random.uniform(key_geometry, (5,), minval=-1)
  height, width = x.shape[1:3]
  rows, columns = jnp.mgrid[:height, :width]
  # relative to the centre, after it has moved by whole pixels
  rows = rows - (height - 1) / 2 - jnp.round(down * height / 8)
  columns = columns - (width - 1) / 2 - jnp.round(right * width / 8)
  sine, cosine = jnp.sin(angle * jnp.pi / 12), jnp.cos(angle * jnp.pi / 12)
  zoom = 1 + scale / 10
  source = (  # row and column in `x` of each pixel of the result
    (cosine * rows - sine * columns) / zoom + (height - 1) / 2,
    (sine * rows + cosine * columns) / zoom + (width - 1) / 2,
  )
  sample = functools.partial(map_coordinates, coordinates=source, order=1, mode='nearest')
  x = jax.vmap(jax.vmap(sample, -1, -1))(x)  # each channel of each image
  x = _blurred(x, 0.2505 + 0.2495 * sigma)  # a standard deviation in [.001, .5]
  x = jnp.where(jax.random.bernoulli(key_mirror), x[:, :, ::-1], x)
  return jnp.clip(x + 0.005 * jax.random.normal(key_noise, x.shape, x.dtype), 0, 1)


def _blurred(x: jax.Array, deviation: jax.Array) -> jax.Array:
  """Blurs images [B, H, W, C] by a Gaussian of 5 × 5 pixels, with reflected edges.

  Args:
    x: the images.
    deviation: standard deviation in pixels.
  """
  kernel = jnp.exp(-0.5 * (jnp.arange(-2, 3) / deviation) ** 2)
  for axis in (1, 2):  # down, then to the right
    pads = [(0, 0)] * 4
    pads[axis] = (2, 2)
    padded = jnp.pad(x, pads, mode='reflect')
    shifted = [jax.lax.slice_in_dim(padded, i, i + x.shape[axis], axis=axis) for i in range(5)]
    x = sum(k * pixels for k, pixels in zip(kernel / kernel.sum(), shifted, strict=True))
  return x


def _jittered(key: jax.Array, x: jax.Array, amounts: jax.Array) -> jax.Array:
  """Applies five changes of colour to all images, in a random order.

  Args:
    key: random key of the order.
    x: images [B, H, W, C] in [0, 1].
    amounts: [5]: factors of brightness, contrast and saturation, the turn of the hue (1 is 360°),
      and the exponent gamma.
  """
  has_colour = x.shape[-1] == 3

  def grey(x: jax.Array) -> jax.Array:
    """Returns the grey level of each pixel, [B, H, W]."""
    return x @ jnp.array([0.2989, 0.587, 0.114], x.dtype) if has_colour else x.mean(-1)

  def blend(x: jax.Array, other: jax.Array | float, factor: jax.Array) -> jax.Array:
    """Scales the difference of images from `other` by `factor`, which may exceed 1."""
    return jnp.clip(factor * x + (1 - factor) * other, 0, 1)

  jitters = (  # functions of images and amount, in the order of `amounts`
    lambda x, a: blend(x, 0, a),  # brightness
    lambda x, a: blend(x, grey(x).mean((1, 2))[:, None, None, None], a),  # contrast
    lambda x, a: blend(x, grey(x)[..., None], a) if has_colour else x,  # saturation
    lambda x, a: _turn_hue(x, a) if has_colour else x,
    lambda x, a: jnp.clip(x, 1e-8, 1) ** a,  # gamma
  )
  for kind in jax.random.permutation(key, 5):
    x = jax.lax.switch(kind, jitters, x, amounts[kind])
  return x


def _turn_hue(image: jax.Array, turn: jax.Array) -> jax.Array:
  """Turns the hue of RGB images [..., 3], as in HSV.

  Value (the largest channel) and saturation stay.

  Args:
    image: [..., 3].
    turn: the turn; 1 is 360°.
  """
  value, spread = image.max(-1), image.max(-1) - image.min(-1)
  red, green, blue = jnp.unstack(image / jnp.where(spread > 0, spread, 1)[..., None], axis=-1)
  # in sixths of a turn: 0 is red, 2 green, 4 blue
  largest = image.argmax(-1)
  hue = jnp.where(largest == 1, 2 + blue - red, 4 + red - green)  # unless red is largest
  hue = jnp.where(largest == 0, green - blue, hue)
  # A channel is `value` minus a share of `spread`. The share depends on the channel's place on a
  # circle from 0 to 6: it rises from 0 to 1 between places 0 and 1, is 1 up to 3, and falls to 0 at
  # 4. At hue 0 the places of red, green and blue are 5, 3 and 1: only red has the full value.
  places = jnp.stack([(start + hue + 6 * turn) % 6 for start in (5, 3, 1)], -1)
  return value[..., None] - spread[..., None] * jnp.clip(jnp.minimum(places, 4 - places), 0, 1)
