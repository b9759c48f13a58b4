"""Probes: small classifiers on the frozen features of a network, fitted to labelled rows.

The features of every training row are recorded once. A probe is fitted to them, with a setting that
held-out rows choose, and network and probe together are a classifier like every other.
"""

import abc
import dataclasses
from collections.abc import Sequence
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import scipy.optimize
import scipy.special
from absl import logging

from robustness.core.errors import KEYS, InputError
from robustness.core.registry import Part, Registry, setting, word
from robustness.core.typing import Facts, PlainValue, PyTree
from robustness.models.classifier import LOGITS, Classifier, Outputs
from robustness.models.layers import FEATURES

Arrays = dict[str, np.ndarray]
_SMALL = 1e-6
_ROWS_AT_ONCE = 2**16


@dataclasses.dataclass(frozen=True)
class Probe(Part):
  """Base class: the fields are the keys of the section `config.classifier.probe.<name>`.

  Attributes:
    layer: the layer of the network with the features as its output, averaged over positions;
      'features' is the input of its last linear map.
    rows_per_class: training rows of each class, drawn by the seed; 0 takes all.
    held_out: share of the rows that choose settings; the probe is then fitted to all rows.
  """

  section: ClassVar[str] = 'config.classifier.probe'

  layer: str = FEATURES
  rows_per_class: int = setting(0, 'at least 1, or 0 for all', lambda x: x >= 0)
  held_out: float = setting(0.2, 'above 0 and below 1', lambda x: 0 < x < 1)

  @abc.abstractmethod
  def candidates(self) -> Sequence[float]:
    """Returns the settings that the held-out rows choose among; a single one is fixed."""

  def takes(self, candidate: float, rows: int) -> bool:
    """Returns whether a candidate can be fitted to this number of rows."""
    return True

  @abc.abstractmethod
  def fitted(self, features: np.ndarray, labels: np.ndarray, classes: int, option: float) -> Arrays:
    """Returns the arrays of the probe for features [N, F], labels [N] and a candidate."""

  @abc.abstractmethod
  def __call__(self, arrays: PyTree, features: jax.Array) -> jax.Array:
    """Returns logits [B, classes] of features [B, F]."""

  @abc.abstractmethod
  def empty(self, rows: int, features: int, classes: int) -> Arrays:
    """Returns arrays with the shapes of `fitted`."""


@dataclasses.dataclass(frozen=True)
class Linear(Probe):
  """Multinomial logistic regression: the minimum of mean loss + penalty / 2 · ‖W‖².

  Features are standardised by the mean and deviation of the training rows, which W includes. The
  bias is not penalised. scikit-learn's C is 1 / (N · penalty), or 2 / (N · penalty) for two
  classes, for which it has one row of W instead of two.

  Attributes:
    penalties: the candidates.
  """

  name = 'linear'

  penalties: tuple[float, ...] = setting(
    (1e-4, 1e-3, 1e-2, 1e-1, 1.0), 'not empty, all above 0', lambda x: min(x, default=0) > 0
  )

  def candidates(self) -> Sequence[float]:
    """The penalties."""
    return self.penalties

  def fitted(self, features: np.ndarray, labels: np.ndarray, classes: int, option: float) -> Arrays:
    """See `Probe`; L-BFGS from zero."""
    mean, std = features.mean(0), features.std(0)
    std = np.where(std > _SMALL * np.abs(features).max(), std, 1.0)
    x, y = jnp.asarray((features - mean) / std), jnp.asarray(_one_hot(labels, classes))
    shape = (x.shape[1] + 1, classes)

    def objective(flat: np.ndarray) -> tuple[float, np.ndarray]:
      weights = jnp.asarray(flat.reshape(shape), jnp.float32)
      value, gradient = _loss_and_gradient(weights, x, y, option)
      return float(value), np.asarray(gradient, np.float64).ravel()

    start, limits = np.zeros(np.prod(shape)), {'maxiter': 500, 'gtol': 1e-5, 'ftol': 1e-8}
    optimum = scipy.optimize.minimize(objective, start, jac=True, method='L-BFGS-B', options=limits)
    if not optimum.success:
      logging.warning('linear probe of penalty %g is not converged: %s', option, optimum.message)
    flat = optimum.x.reshape(shape)
    kernel = flat[:-1] / std[:, None]
    return _float32(kernel=kernel, bias=flat[-1] - mean @ kernel)

  def __call__(self, arrays: PyTree, features: jax.Array) -> jax.Array:
    """See `Probe`."""
    return features @ arrays['kernel'] + arrays['bias'][None]

  def empty(self, rows: int, features: int, classes: int) -> Arrays:
    """See `Probe`."""
    return _float32(kernel=np.zeros((features, classes)), bias=np.zeros(classes))


@dataclasses.dataclass(frozen=True)
class Neighbors(Probe):
  """The k training rows with the largest cosine vote; logits are the logarithms of vote shares.

  Attributes:
    neighbors: the candidates of k.
    votes: 'softmax' weighs a vote by exp(cosine / temperature), as DINO's authors do; 'uniform'
      counts votes, which has no gradient and is refused by attacks.
    temperature: the temperature of 'softmax'.
  """

  name = 'knn'

  neighbors: tuple[int, ...] = setting(
    (1, 5, 10, 20), 'not empty, all at least 1', lambda x: min(x, default=0) > 0
  )
  votes: str = word('softmax', ('softmax', 'uniform'))
  temperature: float = setting(0.07, 'above 0', lambda x: x > 0)

  def candidates(self) -> Sequence[float]:
    """The numbers of neighbors."""
    return self.neighbors

  def takes(self, candidate: float, rows: int) -> bool:
    """See `Probe`; there are no more neighbors than rows."""
    return candidate <= rows

  def fitted(self, features: np.ndarray, labels: np.ndarray, classes: int, option: float) -> Arrays:
    """See `Probe`; keeps all features."""
    if not self.takes(option, len(features)):
      raise InputError(
        f'{self.key("neighbors")} has {option:g}, and there are {len(features)} training rows.'
      )
    # k and the classes are lengths of arrays, so that they are constants of the compiled step
    arrays = _float32(rows=_unit(features), ranks=np.zeros(int(option)), classes=np.zeros(classes))
    return {**arrays, 'labels': labels.astype(np.int32)}

  def __call__(self, arrays: PyTree, features: jax.Array) -> jax.Array:
    """See `Probe`; a share is at least 1e-6."""
    cosines, places = _nearest_rows(_unit_on_device(features), arrays['rows'], len(arrays['ranks']))
    if self.votes == 'softmax':
      weights = jax.nn.softmax(cosines / self.temperature)
    else:
      weights = _no_gradient(1 + 0 * cosines)
    votes = jax.nn.one_hot(arrays['labels'][places], len(arrays['classes']))
    shares = (weights[..., None] * votes).sum(-2) / weights.sum(-1, keepdims=True)
    return jnp.log(jnp.maximum(shares, _SMALL))

  def empty(self, rows: int, features: int, classes: int) -> Arrays:
    """See `Probe`."""
    lengths = {'ranks': min(max(self.neighbors), rows), 'classes': classes}
    arrays = _float32(
      rows=np.zeros((rows, features)), **{k: np.zeros(n) for k, n in lengths.items()}
    )
    return {**arrays, 'labels': np.zeros(rows, np.int32)}


@dataclasses.dataclass(frozen=True)
class Prototype(Probe):
  """The nearest class mean: logits are scale · cosine of features and the mean of a class.

  The mean is over features of length 1.

  Attributes:
    scale: the scale of the logits; it changes probabilities alone.
  """

  name = 'prototype'

  scale: float = setting(20.0, 'above 0', lambda x: x > 0)

  def candidates(self) -> Sequence[float]:
    """A single candidate, which is fixed."""
    return (0,)

  def fitted(self, features: np.ndarray, labels: np.ndarray, classes: int, option: float) -> Arrays:
    """See `Probe`."""
    return _float32(means=_unit(_one_hot(labels, classes).T @ _unit(features)))

  def __call__(self, arrays: PyTree, features: jax.Array) -> jax.Array:
    """See `Probe`."""
    return self.scale * _unit_on_device(features) @ arrays['means'].T

  def empty(self, rows: int, features: int, classes: int) -> Arrays:
    """See `Probe`."""
    return _float32(means=np.zeros((classes, features)))


@jax.jit
@jax.value_and_grad
def _loss_and_gradient(
  map_and_bias: jax.Array, x: jax.Array, one_hot: jax.Array, penalty: float
) -> jax.Array:
  """Returns the mean cross-entropy + `penalty` / 2 · ‖weights‖², and its gradient by all weights.

  `map_and_bias` [F + 1, classes] has the bias, which is not penalised, as its last row; `x` [N, F]
  are features and `one_hot` [N, classes] the labels.
  """
  logits = x @ map_and_bias[:-1] + map_and_bias[-1:]
  fits = (jax.nn.log_softmax(logits) * one_hot).sum(-1).mean()
  return penalty / 2 * (map_and_bias[:-1] ** 2).sum() - fits


PROBES = Registry('robustness.models.probes', Probe)  # type: ignore[type-abstract]


def fit(
  probe: Probe, features: np.ndarray, labels: np.ndarray, class_names: Sequence[str], seed: int
) -> tuple[Arrays, Facts]:
  """Returns a fitted probe and its chosen setting, in plain values.

  Rows are drawn and held out class by class, by the seed. The candidate with the highest accuracy
  on the held-out rows is chosen, and of candidates with equal accuracy the one with the least log
  loss; the probe is then fitted to all rows. CLIP's authors also choose the penalty of L-BFGS by
  validation accuracy, of 96 values between 1e-6 and 1e6, and fit to all rows; they state no rule
  for ties. DINO's authors train the linear map by SGD on augmented images and sweep its learning
  rate instead of a penalty.

  Args:
    probe: its kind and settings.
    features: float32 [N, F].
    labels: int [N], positions in `class_names`.
    class_names: the classes, each with rows.
    seed: the seed of the draws.

  Raises:
    InputError: a class has no rows, or one row if a setting is to be chosen; features have NaN; or
      rows do not have one label each.

  References:
    Radford et al., Learning transferable visual models from natural language supervision, ICML
    2021, appendix A.3; Caron et al., Emerging properties in self-supervised vision transformers,
    ICCV 2021, appendix.
  """
  if not np.isfinite(features).all():
    raise InputError(f'{probe.section}: the features of the training rows have NaN or infinity.')
  rows, outside = drawn_rows(probe, labels, class_names, seed)
  inside, classes = np.setdiff1d(rows, outside), len(class_names)
  has_choice = len(probe.candidates()) > 1
  scores: dict[float, tuple[float, float]] = {}
  for candidate in probe.candidates() if has_choice else ():
    if not probe.takes(candidate, len(inside)):
      continue
    arrays = probe.fitted(features[inside], labels[inside], classes, candidate)
    scores[candidate] = accuracy_and_log_loss(probe, arrays, features[outside], labels[outside])
  possible = [c for c in probe.candidates() if probe.takes(c, len(rows))]
  best = (possible or probe.candidates())[0]
  if scores:
    best = min(scores, key=lambda candidate: (-scores[candidate][0], scores[candidate][1]))
  facts: dict[str, PlainValue] = {**probe.describe(), 'rows': len(rows), 'seed': seed}
  if has_choice:
    facts['chosen'] = best
  if scores:
    facts['held_out_accuracy'], facts['held_out_rows'] = scores[best][0], len(outside)
  return probe.fitted(features[rows], labels[rows], classes, best), facts


def drawn_rows(
  probe: Probe, labels: np.ndarray, class_names: Sequence[str], seed: int
) -> tuple[np.ndarray, np.ndarray]:
  """Returns the rows that a probe is fitted to, and the held-out rows among them, ascending.

  Raises:
    InputError: see `fit`.
  """
  if labels.ndim != 1:
    raise InputError(f'{probe.section}: the training rows have several labels each.')
  if probe.rows_per_class == 1 and len(probe.candidates()) > 1:
    raise InputError(
      f'{probe.key("rows_per_class")} is 1, but settings are chosen by rows of each class that are '
      'held out: give 2 or more, or one value of what is chosen (penalties, neighbors).'
    )
  generator = np.random.default_rng(seed)
  least = max(probe.rows_per_class, 2 if len(probe.candidates()) > 1 else 1)
  fitted, held_out, lacking = [], [], dict[str, int]()
  for index, name in enumerate(class_names):
    rows = generator.permutation(np.flatnonzero(labels == index))[: probe.rows_per_class or None]
    if len(rows) < least:
      lacking[name] = len(rows)
    fitted.append(rows)
    held_out.append(rows[: max(1, min(len(rows) - 1, round(len(rows) * probe.held_out)))])
  if lacking:
    first = next(iter(lacking))
    raise InputError(
      f'{probe.section}.{probe.name} needs {least} training rows of each class; {len(lacking)} of '
      f'{len(class_names)} classes have fewer, first {first!r} with {lacking[first]}.'
    )
  return np.sort(np.concatenate(fitted)), np.sort(np.concatenate(held_out))


def accuracy_and_log_loss(
  probe: Probe, arrays: Arrays, features: np.ndarray, labels: np.ndarray
) -> tuple[float, float]:
  """Returns accuracy and mean log loss, −log softmax(logits)_label in nats, on features [N, F]."""
  parts = (jnp.asarray(features[i : i + 1024]) for i in range(0, len(features), 1024))
  logits = np.concatenate([np.asarray(probe(arrays, part), float) for part in parts])
  log_probability = scipy.special.log_softmax(logits, 1)[np.arange(len(labels)), labels]
  return float((logits.argmax(1) == labels).mean()), float(-log_probability.mean())


def features_of(network: Classifier, layer: str, class_names: Sequence[str]) -> Classifier:
  """Returns the network with the features of a probe as its layer 'features'.

  Its logits are zeros for the classes of the rows.

  Raises:
    InputError: it has no such layer (the nearest are listed), or is a callable.
  """
  if network.host_function:
    raise InputError(
      f'{network.name} is a callable, which has no features for a probe: set '
      f"{KEYS.classifier.probe.name}=''."
    )
  name = _single_layer(network, layer)

  def forward(variables: PyTree, images: jax.Array, layers: tuple[str, ...]) -> Outputs:
    features = pooled(network.apply(variables, images, (name,))[1][name])
    return jnp.zeros((len(images), len(class_names))), {FEATURES: features}

  return dataclasses.replace(
    network, forward=forward, class_names=tuple(class_names), aliases={}, layers=(FEATURES, LOGITS)
  )


def num_features(network: Classifier, layer: str) -> int:
  """Returns F of a layer's features [B, F], without computing any."""
  extractor = features_of(network, layer, ())
  images = jax.ShapeDtypeStruct((2, *network.input_shape), jnp.float32)
  outputs = jax.eval_shape(lambda v, x: extractor.forward(v, x, ())[1], network.variables, images)
  return int(outputs[FEATURES].shape[1])


def with_probe(
  network: Classifier, probe: Probe, arrays: Arrays, class_names: Sequence[str], facts: Facts
) -> Classifier:
  """Returns the network with the probe's logits in place of the network's; layers stay."""
  layer = _single_layer(network, probe.layer)

  def forward(variables: PyTree, images: jax.Array, layers: tuple[str, ...]) -> Outputs:
    inside = tuple(name for name in layers if name != LOGITS)
    requested = tuple(dict.fromkeys((*inside, layer)))
    _, outputs = network.apply(variables['network'], images, requested)
    logits = probe(variables['probe'], pooled(outputs[layer]))
    return logits, {name: outputs[name] for name in inside}

  return dataclasses.replace(
    network,
    forward=forward,
    variables={'network': network.variables, 'probe': jax.device_put(arrays)},
    class_names=tuple(class_names),
    aliases={},
    provenance={**network.provenance, 'probe': facts} if facts else network.provenance,
  )


def _single_layer(network: Classifier, layer: str) -> str:
  """Returns the only layer that `layer` stands for."""
  names = network.select_layers((layer,))
  if len(names) > 1:
    raise InputError(f'a probe takes one layer of {network.name}: {", ".join(names)}.')
  return names[0]


def pooled(x: jax.Array) -> jax.Array:
  """Returns features [B, F], the means over positions of [B, F], [B, N, F] or [B, H, W, F]."""
  return jnp.mean(x, axis=tuple(range(1, x.ndim - 1))).astype(jnp.float32)


@jax.custom_jvp
def _no_gradient(x: jax.Array) -> jax.Array:
  """Returns `x`; its derivative raises InputError."""
  return x


@_no_gradient.defjvp
def _refused(primals: PyTree, tangents: PyTree) -> PyTree:
  """Raises InputError in place of the derivative of counts."""
  raise InputError(
    f"{KEYS.classifier.probe.knn.votes} is 'uniform', which has no gradient: set it to 'softmax'."
  )


def _nearest_rows(unit: jax.Array, rows: jax.Array, k: int) -> tuple[jax.Array, jax.Array]:
  """Returns the k largest products of features [B, F] with rows [N, F], and their places, [B, k].

  Rows are searched in blocks, so that [B, N] is never held; of equal products the first row counts.
  """
  size = min(len(rows), _ROWS_AT_ONCE)

  @jax.checkpoint
  def search(
    best: tuple[jax.Array, jax.Array], start: jax.Array
  ) -> tuple[tuple[jax.Array, jax.Array], None]:
    first = jnp.minimum(start, len(rows) - size)  # the last block overlaps the one before
    places = jnp.broadcast_to((first + jnp.arange(size))[None], (len(unit), size))
    products = unit @ jax.lax.dynamic_slice_in_dim(rows, first, size).T
    products = jnp.where(places < start, -jnp.inf, products)
    values, ranks = jax.lax.top_k(jnp.concatenate([best[0], products], 1), k)
    places = jnp.concatenate([best[1], places], 1)
    return (values, jnp.take_along_axis(places, ranks, 1)), None

  no_rows = jnp.full((len(unit), k), -jnp.inf), jnp.zeros((len(unit), k), jnp.int32)
  return jax.lax.scan(search, no_rows, jnp.arange(0, len(rows), size))[0]


def _unit(x: np.ndarray) -> np.ndarray:
  """Returns the rows of `x` at length 1."""
  return x / np.maximum(np.linalg.norm(x, axis=-1, keepdims=True), _SMALL)


def _unit_on_device(x: jax.Array) -> jax.Array:
  """Returns the rows of `x` at length 1."""
  return x / jnp.maximum(jnp.linalg.norm(x, axis=-1, keepdims=True), _SMALL)


def _one_hot(labels: np.ndarray, classes: int) -> np.ndarray:
  """Returns labels [N] as rows [N, classes] with a 1 at the label."""
  return (labels[:, None] == np.arange(classes)).astype(np.float32)


def _float32(**arrays: np.ndarray) -> Arrays:
  """Returns the arrays in float32 by name."""
  return {name: np.asarray(array, np.float32) for name, array in arrays.items()}
