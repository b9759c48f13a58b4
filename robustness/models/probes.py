"""Probes: small classifiers on the frozen features of a network, fitted to labelled rows.

The network computes the features of every training row once, and they are saved. A probe is fitted
to them. Its hyperparameter, such as the penalty, is chosen by the accuracy on held-out training
rows. The network with its probe is then used like any other classifier.
"""

import abc
import dataclasses
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
import scipy
from absl import logging

from robustness.core.errors import KEYS, InputError
from robustness.core.registry import Part, Registry, setting, word
from robustness.core.typing import Facts, PlainValue, PyTree
from robustness.models.classifier import LOGITS, Classifier, Outputs
from robustness.models.layers import FEATURES

Arrays = dict[str, np.ndarray]
"""The arrays of a fitted probe by name."""
_Nearest = tuple[jax.Array, jax.Array]
"""The k largest cosines [B, k] of features with rows, and the indices of these rows."""
_SMALL = 1e-6
"""Lower bound of norms, shares of votes and relative standard deviations, to avoid division by 0
and the logarithm of 0."""
_ROWS_AT_ONCE = 2**16
"""Number of rows that are compared with features at a time."""


@dataclasses.dataclass(frozen=True)
class Probe(Part):
  """Base class of probes: small classifiers on the frozen features of a network.

  Fields are set by `config.classifier.probe.<name>.<field>`.

  Attributes:
    layer: layer with the features as its output. They are averaged over positions. 'features' is
      the input of the network's last linear map.
    rows_per_class: number of random training images per class; 0 for all.
    held_out: share of these images, in (0, 1), held out to select the hyperparameter by accuracy.
      The final fit uses all of them.
  """

  section = 'config.classifier.probe'

  layer: str = FEATURES
  rows_per_class: int = setting(0, 'at least 1, or 0 for all', lambda x: x >= 0)
  held_out: float = setting(0.2, 'above 0 and below 1', lambda x: 0 < x < 1)

  def __post_init__(self) -> None:
    """Raises InputError for settings of a probe that have no effect.

    A probe is a classifier that is fitted to features. If one of its settings has several values,
    `held_out` is the share of training rows that choose between them, and each class needs two rows
    at least.
    """
    super().__post_init__()
    default, has_choice = type(self).held_out, len(self.candidates()) > 1
    valid = f'{default} where no setting is chosen from several values'
    self.require(has_choice or self.held_out == default, 'held_out', valid)
    valid = '0 or at least 2 where a setting is chosen by held-out rows of each class'
    self.require(self.rows_per_class != 1 or not has_choice, 'rows_per_class', valid)

  @abc.abstractmethod
  def candidates(self) -> Sequence[float]:
    """Returns the values of the probe's hyperparameter to choose from, at least one."""

  def takes(self, candidate: float, rows: int) -> bool:
    """Returns whether `rows` training images suffice for a hyperparameter of `candidate`.

    For instance, k nearest neighbours need k images.
    """
    return True

  @abc.abstractmethod
  def fitted(self, features: np.ndarray, labels: np.ndarray, classes: int, option: float) -> Arrays:
    """Fits the probe to features with labels.

    Args:
      features: float32 [N, F].
      labels: int [N].
      classes: number of classes.
      option: value of the hyperparameter, one of `candidates()`.

    Returns:
      {name: fitted array}, such as the `kernel` and `bias` of a linear probe.
    """

  @abc.abstractmethod
  def __call__(self, arrays: PyTree, features: jax.Array) -> jax.Array:
    """Computes logits [B, classes] of features [B, F].

    Args:
      arrays: the result of `fitted`.
      features: features [B, F].
    """

  @abc.abstractmethod
  def empty(self, rows: int, features: int, classes: int) -> Arrays:
    """Returns zeros in the shapes of the fitted arrays, to check them before features are computed.

    Args:
      rows: number of training images.
      features: number of features F.
      classes: number of classes.
    """


@dataclasses.dataclass(frozen=True)
class Linear(Probe):
  """Multinomial logistic regression, fitted with an L2 penalty.

  The fit minimises mean cross-entropy + penalty / 2 · ‖W‖². The weights W [F, classes] act on
  features standardised by their mean and standard deviation over the N training images. The bias is
  not penalised.

  In scikit-learn, C = 1 / (N · penalty), or 2 / (N · penalty) for two classes.

  Attributes:
    penalties: penalties to try. The one with the best accuracy on held-out images is used.
  """

  name = 'linear'

  penalties: tuple[float, ...] = setting(
    (1e-4, 1e-3, 1e-2, 1e-1, 1.0), 'not empty, all above 0', lambda x: min(x, default=0) > 0
  )

  def candidates(self) -> Sequence[float]:
    """Returns the penalties to compare."""
    return self.penalties

  def fitted(self, features: np.ndarray, labels: np.ndarray, classes: int, option: float) -> Arrays:
    """Fits a linear classifier to features by L-BFGS, from zero.

    Args:
      features: [N, F]; they are standardised for the fit, and the kernel includes this.
      labels: int [N].
      classes: number of classes.
      option: factor of the penalty on the weights.

    Returns:
      'kernel' [F, classes] and 'bias' [classes].
    """
    mean, std = features.mean(0), features.std(0)
    std = np.where(std > _SMALL * np.abs(features).max(), std, 1.0)  # 1 for constant features
    x, y = jnp.asarray((features - mean) / std), jnp.asarray(_one_hot(labels, classes))
    shape = (x.shape[1] + 1, classes)  # W, and the bias as the last row

    def objective(flat: np.ndarray) -> tuple[float, np.ndarray]:
      """Returns the penalised loss and its gradient.

      Args:
        flat: the flattened weights and bias.
      """
      weights = jnp.asarray(flat.reshape(shape), jnp.float32)
      value, gradient = _loss_and_gradient(weights, x, y, option)
      return float(value), np.asarray(gradient, np.float64).ravel()

    start = np.zeros(np.prod(shape))
    limits = {'maxiter': 500, 'gtol': 1e-5, 'ftol': 1e-8}
    optimum = scipy.optimize.minimize(objective, start, jac=True, method='L-BFGS-B', options=limits)
    if not optimum.success:
      logging.warning('linear probe of penalty %g is not converged: %s', option, optimum.message)
    weights = optimum.x.reshape(shape)
    standardised_kernel, bias = weights[:-1], weights[-1]
    # (features − mean) ÷ std · standardised_kernel = features · kernel − mean · kernel
    kernel = standardised_kernel / std[:, None]
    return _float32(kernel=kernel, bias=bias - mean @ kernel)

  def __call__(self, arrays: PyTree, features: jax.Array) -> jax.Array:
    """Returns the logits [B, classes]: features · kernel + bias."""
    return features @ arrays['kernel'] + arrays['bias'][None]

  def empty(self, rows: int, features: int, classes: int) -> Arrays:
    """Returns zeros for the kernel [features, classes] and the bias [classes]."""
    return _float32(kernel=np.zeros((features, classes)), bias=np.zeros(classes))


@dataclasses.dataclass(frozen=True)
class Neighbors(Probe):
  """k nearest neighbours: the training images with the most similar features vote.

  Similarity is the cosine. Logits are the logarithms of the classes' shares of the votes.

  Attributes:
    neighbors: numbers k to try. The one with the best accuracy on held-out images is used.
    votes: 'softmax' weighs a vote by exp(cosine / temperature), as DINO's authors do. 'uniform'
      counts votes; attacks refuse it because a count has no gradient.
    temperature: the temperature of 'softmax'.
  """

  name = 'knn'

  neighbors: tuple[int, ...] = setting(
    (1, 5, 10, 20), 'not empty, all at least 1', lambda x: min(x, default=0) > 0
  )
  votes: str = word('softmax', ('softmax', 'uniform'))
  temperature: float = setting(0.07, 'above 0', lambda x: x > 0, only_with=('votes', 'softmax'))

  def candidates(self) -> Sequence[float]:
    """Returns the values of k to compare."""
    return self.neighbors

  def takes(self, candidate: float, rows: int) -> bool:
    """Returns whether there are `candidate` or more training rows."""
    return candidate <= rows

  def fitted(self, features: np.ndarray, labels: np.ndarray, classes: int, option: float) -> Arrays:
    """Stores the features [N, F] of the training images, scaled to length 1, with their labels.

    The number of neighbours k is `option`. The arrays are described in `empty`.
    """
    # Only the lengths of `ranks` and `classes` are used, as k and as the number of classes. Unlike
    # values, lengths are constants when compiled.
    k = int(option)
    arrays = _float32(rows=_unit_rows(features), ranks=np.zeros(k), classes=np.zeros(classes))
    return {**arrays, 'labels': labels.astype(np.int32)}

  def __call__(self, arrays: PyTree, features: jax.Array) -> jax.Array:
    """Classifies features by the votes of the k nearest training images.

    Args:
      arrays: features and labels of the training images, from `fitted`.
      features: [B, F].

    Returns:
      The logarithms of the shares of the votes, [B, classes]; a share below 1e-6 counts as 1e-6.
    """
    k = len(arrays['ranks'])  # an array of k zeros, see `fitted`
    cosines, neighbors = _nearest_rows(_unit_on_device(features), arrays['rows'], k)
    if self.votes == 'softmax':
      weights = jax.nn.softmax(cosines / self.temperature)
    else:  # ones that depend on `cosines`, so that the gradient of an attack raises InputError
      weights = _no_gradient(1 + 0 * cosines)
    votes = jax.nn.one_hot(arrays['labels'][neighbors], len(arrays['classes']))  # [B, k, classes]
    shares = (weights[..., None] * votes).sum(-2) / weights.sum(-1, keepdims=True)
    return jnp.log(jnp.maximum(shares, _SMALL))

  def empty(self, rows: int, features: int, classes: int) -> Arrays:
    """Returns arrays of zeros in the shapes that `fitted` returns, before any image was seen.

    This classifier votes among the k training images that are nearest in feature space. Its k is
    the largest in the setting `neighbors` that `rows` allows.

    Args:
      rows: number of training images.
      features: number of features of an image.
      classes: number of classes.

    Returns:
      'rows': features of the training images, [rows, features];
      'labels': int32 labels, [rows];
      'ranks': an array of length k, which only stores k;
      'classes': an array of length `classes`, which only stores the number of classes.

    Raises:
      InputError: all of `neighbors` exceed `rows`.
    """
    least = min(self.neighbors)
    if not self.takes(least, rows):
      raise InputError(f'{self.key("neighbors")} has {least}, and there are {rows} training rows.')
    k = min(max(self.neighbors), rows)
    return self.fitted(np.zeros((rows, features), np.float32), np.zeros(rows), classes, k)


@dataclasses.dataclass(frozen=True)
class Prototype(Probe):
  """Nearest class mean: logits are scale · cosine(features, mean of the class).

  Features are scaled to length 1 before they are averaged.

  Attributes:
    scale: factor of the logits, which changes probabilities but no prediction.
  """

  name = 'prototype'

  scale: float = setting(20.0, 'above 0', lambda x: x > 0)

  def candidates(self) -> Sequence[float]:
    """Returns one dummy value, because there is no hyperparameter to choose."""
    return (0,)

  def fitted(self, features: np.ndarray, labels: np.ndarray, classes: int, option: float) -> Arrays:
    """Computes the mean of features [N, F] by class, [classes, F], scaled to length 1.

    `option` is ignored.
    """
    return _float32(means=_unit_rows(_one_hot(labels, classes).T @ _unit_rows(features)))

  def __call__(self, arrays: PyTree, features: jax.Array) -> jax.Array:
    """Returns logits [B, classes]: scale · cosine(features, mean of the class)."""
    return self.scale * _unit_on_device(features) @ arrays['means'].T

  def empty(self, rows: int, features: int, classes: int) -> Arrays:
    """Returns zeros for the class means [classes, features]."""
    return _float32(means=np.zeros((classes, features)))


@jax.jit
@jax.value_and_grad
def _loss_and_gradient(
  map_and_bias: jax.Array, x: jax.Array, one_hot: jax.Array, penalty: float
) -> jax.Array:
  """Computes the penalised loss of a linear probe and its gradient.

  The loss is mean cross-entropy + `penalty` / 2 · ‖W‖². The gradient [F + 1, classes] is with
  respect to `map_and_bias`.

  Args:
    map_and_bias: [F + 1, classes], the weights W with the bias as its last row.
    x: features [N, F].
    one_hot: labels [N, classes].
    penalty: at least 0.
  """
  weights, bias = map_and_bias[:-1], map_and_bias[-1:]
  logits = x @ weights + bias
  log_likelihood = (jax.nn.log_softmax(logits) * one_hot).sum(-1).mean()
  return penalty / 2 * (weights**2).sum() - log_likelihood


PROBES = Registry('robustness.models.probes', Probe)  # type: ignore[type-abstract]


def fit(
  probe: Probe, features: np.ndarray, labels: np.ndarray, class_names: Sequence[str], seed: int
) -> tuple[Arrays, Facts]:
  """Fits a probe to the features of training images and selects its hyperparameter.

  Images are drawn, and some of them held out, at random class by class. The value with the highest
  accuracy on held-out images is chosen; the smallest log loss breaks ties. The probe is then fitted
  to all drawn images.

  Args:
    probe: the kind of probe and its settings.
    features: float32 [N, F].
    labels: int [N], positions in `class_names`.
    class_names: the classes; each needs images.
    seed: seed of the random choice of images.

  Returns:
    (arrays of the fitted probe, facts about the fit). The facts are the probe's settings, the
    number of images as `rows`, and `seed`. After a selection they also have the value as `chosen`,
    and its `held_out_accuracy` on `held_out_rows` images.

  Raises:
    InputError: a class has no images, or only one if a hyperparameter is to be chosen; features
      have NaN; or images have several labels.

  References:
    Radford et al., Learning transferable visual models from natural language supervision, ICML
    2021, appendix A.3. The authors choose among 96 penalties from 1e-6 to 1e6 by validation
    accuracy.

    Caron et al., Emerging properties in self-supervised vision transformers, ICCV 2021, appendix.
    The authors train the linear map by SGD on augmented images instead, and sweep its learning
    rate.
  """
  if not np.isfinite(features).all():
    raise InputError(f'{probe.section}: the features of the training rows have NaN or infinity.')
  rows, held_out = drawn_rows(probe, labels, class_names, seed)
  candidates, classes = probe.candidates(), len(class_names)
  has_choice = len(candidates) > 1
  scores: dict[float, tuple[float, float]] = {}  # held-out accuracy and log loss by candidate
  if has_choice:
    not_held_out = np.setdiff1d(rows, held_out)
    for candidate in candidates:
      if probe.takes(candidate, len(not_held_out)):  # k nearest neighbours need k rows
        arrays = probe.fitted(features[not_held_out], labels[not_held_out], classes, candidate)
        score = accuracy_and_log_loss(probe, arrays, features[held_out], labels[held_out])
        scores[candidate] = score
  if scores:  # highest accuracy, then smallest log loss
    best = min(scores, key=lambda candidate: (-scores[candidate][0], scores[candidate][1]))
  else:  # nothing to choose, or too few rows for any candidate once some were held out: the first
    # candidate for which all rows suffice; `Probe.empty` has raised an error if there is none
    best = next(candidate for candidate in candidates if probe.takes(candidate, len(rows)))
  facts: dict[str, PlainValue] = {**probe.describe(), 'rows': len(rows), 'seed': seed}
  if has_choice:
    facts['chosen'] = best
  if scores:
    facts['held_out_accuracy'], facts['held_out_rows'] = scores[best][0], len(held_out)
  return probe.fitted(features[rows], labels[rows], classes, best), facts


def drawn_rows(
  probe: Probe, labels: np.ndarray, class_names: Sequence[str], seed: int
) -> tuple[np.ndarray, np.ndarray]:
  """Draws the training images for a probe, and the held-out images among them.

  Args:
    probe: the kind of probe and its settings.
    labels: int [N], positions in `class_names`.
    class_names: the classes.
    seed: seed of the random choice.

  Returns:
    (indices of the drawn images, indices of the held-out images), both ascending. Images are held
    out even if the probe has no hyperparameter to choose by them.

  Raises:
    InputError: a class has too few images, or images have several labels.
  """
  if labels.ndim != 1:
    raise InputError(f'{probe.section}: the training rows have several labels each.')
  has_choice = len(probe.candidates()) > 1
  generator = np.random.default_rng(seed)
  # a choice needs one row of a class to fit and one to hold out
  needed = max(probe.rows_per_class, 2 if has_choice else 1)
  drawn, held_out = [], []
  too_small: dict[str, int] = {}  # {class: number of its rows}
  for index, name in enumerate(class_names):
    rows_of_class = generator.permutation(np.flatnonzero(labels == index))
    rows = rows_of_class[: probe.rows_per_class or None]  # 0 takes all
    if len(rows) < needed:
      too_small[name] = len(rows)
    drawn.append(rows)
    # of two or more rows of a class, at least one is held out and at least one is not
    num_held_out = max(1, min(len(rows) - 1, round(len(rows) * probe.held_out)))
    held_out.append(rows[:num_held_out])
  if too_small:
    first = next(iter(too_small))
    raise InputError(
      f'{probe.section}.{probe.name} needs {needed} training rows of each class; {len(too_small)} '
      f'of {len(class_names)} classes have fewer, first {first!r} with {too_small[first]}.'
    )
  return np.sort(np.concatenate(drawn)), np.sort(np.concatenate(held_out))


def accuracy_and_log_loss(
  probe: Probe, arrays: Arrays, features: np.ndarray, labels: np.ndarray
) -> tuple[float, float]:
  """Returns the accuracy in [0, 1] and the mean log loss of a fitted probe.

  The log loss is −log softmax(logits)[label], in nats.

  Args:
    probe: the probe.
    arrays: the arrays of the fitted probe by name, as `Probe.fitted` returns them.
    features: float32 [N, F].
    labels: int [N].
  """
  size = 1024  # rows on the device at a time
  batches = (jnp.asarray(features[i : i + size]) for i in range(0, len(features), size))
  logits = np.concatenate([np.asarray(probe(arrays, batch), float) for batch in batches])
  log_probability = scipy.special.log_softmax(logits, 1)[np.arange(len(labels)), labels]
  return float((logits.argmax(1) == labels).mean()), float(-log_probability.mean())


def features_of(network: Classifier, layer: str, class_names: Sequence[str]) -> Classifier:
  """Returns a classifier with the layer 'features', the input of a probe.

  The features [B, F] are the output of `layer`, averaged over positions. The logits are zeros,
  since the probe that computes them is not fitted yet.

  Args:
    network: the network with the layer.
    layer: name of the layer.
    class_names: the classes of the probe, each with a logit.

  Raises:
    InputError: the network has no such layer, or is a callable without layers.
  """
  if network.host_function:
    raise InputError(
      f'{network.name} is a callable, which has no features for a probe: set '
      f"{KEYS.classifier.probe.name}=''."
    )
  name = _single_layer(network, layer)

  def forward(variables: PyTree, images: jax.Array, layers: tuple[str, ...]) -> Outputs:
    """Returns logits of zeros [B, classes], and {'features': [B, F]}."""
    _, outputs = network.apply(variables, images, (name,))
    features = pooled(outputs[name])
    return jnp.zeros((len(images), len(class_names))), {FEATURES: features}

  return dataclasses.replace(
    network, forward=forward, class_names=tuple(class_names), layers=(FEATURES, LOGITS)
  )


def num_features(network: Classifier, layer: str) -> int:
  """Returns the number F of features [B, F] of a layer, from shapes alone."""
  extractor = features_of(network, layer, ())
  images = jax.ShapeDtypeStruct((2, *network.input_shape), jnp.float32)
  _, outputs = jax.eval_shape(extractor.forward, network.variables, images, ())
  return int(outputs[FEATURES].shape[1])


def with_probe(
  network: Classifier, probe: Probe, arrays: Arrays, class_names: Sequence[str], facts: Facts
) -> Classifier:
  """Returns a classifier that has the network's layers and the logits of a fitted probe.

  Args:
    network: the network.
    probe: the probe.
    arrays: {name: array} of the fitted probe, from `Probe.fitted`.
    class_names: the classes of the probe.
    facts: facts about the fit, from `fit`, for the provenance of the classifier.
  """
  layer = _single_layer(network, probe.layer)

  def forward(variables: PyTree, images: jax.Array, layers: tuple[str, ...]) -> Outputs:
    """Computes the forward pass of a network with a probe, a classifier of the outputs of `layer`.

    Args:
      variables: those of the 'network' and of the 'probe'.
      images: images [B, H, W, C] in [0, 1].
      layers: names of the layers to return.

    Returns:
      The logits of the probe, [B, classes], and {layer: output}.
    """
    # `Classifier.apply` adds the logits of the probe to the outputs by itself
    network_layers = tuple(name for name in layers if name != LOGITS)
    requested = tuple(dict.fromkeys((*network_layers, layer)))
    _, outputs = network.apply(variables['network'], images, requested)
    logits = probe(variables['probe'], pooled(outputs[layer]))
    return logits, {name: outputs[name] for name in network_layers}

  return dataclasses.replace(
    network,
    forward=forward,
    variables={'network': network.variables, 'probe': jax.device_put(arrays)},
    class_names=tuple(class_names),
    provenance={**network.provenance, 'probe': facts} if facts else network.provenance,
  )


def _single_layer(network: Classifier, layer: str) -> str:
  """Returns the name of the only layer that `layer` stands for.

  Args:
    network: the network.
    layer: name of a layer or of a group of layers.

  Raises:
    InputError: the group has several layers.
  """
  names = network.select_layers((layer,))
  if len(names) > 1:
    raise InputError(f'a probe takes one layer of {network.name}: {", ".join(names)}.')
  return names[0]


def pooled(x: jax.Array) -> jax.Array:
  """Averages features [B, F], [B, N, F] or [B, H, W, F] over positions to [B, F]."""
  return jnp.mean(x, axis=tuple(range(1, x.ndim - 1))).astype(jnp.float32)


@jax.custom_jvp
def _no_gradient(x: jax.Array) -> jax.Array:
  """Returns `x`; taking the derivative raises InputError."""
  return x


@_no_gradient.defjvp
def _refuse_derivative(primals: PyTree, tangents: PyTree) -> PyTree:
  """Raises InputError, since counted votes have no derivative with respect to features."""
  raise InputError(
    f"{KEYS.classifier.probe.knn.votes} is 'uniform', which has no gradient: set it to 'softmax'."
  )


def _nearest_rows(features: jax.Array, rows: jax.Array, k: int) -> _Nearest:
  """Finds the k training images with features most similar to each query.

  The training images are searched in blocks to save memory. Among equal similarities the first
  images are taken.

  Args:
    features: features of the queries, [B, F], of length 1.
    rows: features of the training images, [N, F], of length 1.
    k: number of neighbours.

  Returns:
    (cosines, indices in `rows`), both [B, k], from the most similar on.
  """
  block_size = min(len(rows), _ROWS_AT_ONCE)

  @jax.checkpoint  # else a gradient would keep the cosines of all blocks, [B, N]
  def search_block(best: _Nearest, start: jax.Array) -> tuple[_Nearest, None]:
    """Updates the nearest rows with the block of rows that begins at `start`, for `lax.scan`.

    `rows` [N, F] are the features of N training images and `features` [B, F] those of the queries,
    all of length 1. Of each query the k nearest rows are wanted.

    Args:
      best: cosines and indices of the nearest rows before `start`, [B, k] each.
      start: index of the first row of the block that was not searched yet.

    Returns:
      The updated cosines and indices, and None as `scan` needs it.
    """
    best_cosines, best_indices = best
    # the last block overlaps the one before: of 10 rows in blocks of 4 it has rows 6 to 9
    first = jnp.minimum(start, len(rows) - block_size)
    indices = first + jnp.arange(block_size)
    indices = jnp.broadcast_to(indices[None], (len(features), block_size))
    cosines = features @ jax.lax.dynamic_slice_in_dim(rows, first, block_size).T  # [B, block]
    cosines = jnp.where(indices < start, -jnp.inf, cosines)  # without the overlap, rows 6 and 7
    cosines, places = jax.lax.top_k(jnp.concatenate([best_cosines, cosines], 1), k)
    indices = jnp.concatenate([best_indices, indices], 1)
    return (cosines, jnp.take_along_axis(indices, places, 1)), None

  no_rows = jnp.full((len(features), k), -jnp.inf), jnp.zeros((len(features), k), jnp.int32)
  best, _ = jax.lax.scan(search_block, no_rows, jnp.arange(0, len(rows), block_size))
  return best


def _unit_rows(x: np.ndarray) -> np.ndarray:
  """Scales the rows of `x` [N, F] to length 1."""
  return x / np.maximum(np.linalg.norm(x, axis=-1, keepdims=True), _SMALL)


def _unit_on_device(x: jax.Array) -> jax.Array:
  """Scales the rows of `x` [N, F] to length 1; rows of zeros stay zero, with a finite gradient."""
  return x / jnp.sqrt(jnp.maximum((x**2).sum(-1, keepdims=True), _SMALL**2))


def _one_hot(labels: np.ndarray, classes: int) -> np.ndarray:
  """Returns one-hot rows [N, classes], float32, for labels [N]."""
  return (labels[:, None] == np.arange(classes)).astype(np.float32)


def _float32(**arrays: np.ndarray) -> Arrays:
  """Converts the arrays to float32 and returns them by name."""
  return {name: np.asarray(array, np.float32) for name, array in arrays.items()}
