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
  """Base class of probes, with fields set by `config.classifier.probe.<name>.<field>`.

  Attributes:
    layer: name of the layer with the features as its output, averaged over positions; 'features' is
      the input of the network's last linear map.
    rows_per_class: number of training rows per class, drawn at random; 0 takes all.
    held_out: share of the rows, in (0, 1), that are held out to choose a value of the
      hyperparameter from `candidates()` by accuracy. The probe is then fitted to all rows.
  """

  section = 'config.classifier.probe'

  layer: str = FEATURES
  rows_per_class: int = setting(0, 'at least 1, or 0 for all', lambda x: x >= 0)
  held_out: float = setting(0.2, 'above 0 and below 1', lambda x: 0 < x < 1)

  @abc.abstractmethod
  def candidates(self) -> Sequence[float]:
    """Returns the values of the probe's hyperparameter to choose from, one or several."""

  def takes(self, candidate: float, rows: int) -> bool:
    """Returns whether the hyperparameter can be `candidate` with this number of training rows."""
    return True

  @abc.abstractmethod
  def fitted(self, features: np.ndarray, labels: np.ndarray, classes: int, option: float) -> Arrays:
    """Returns the arrays of the fitted probe by name, which `__call__` takes.

    A linear probe, for example, has a `kernel` [F, classes] and a `bias` [classes].

    Args:
      features: float32 [N, F].
      labels: int [N].
      classes: number of classes.
      option: value of the hyperparameter, one of `candidates()`.
    """

  @abc.abstractmethod
  def __call__(self, arrays: PyTree, features: jax.Array) -> jax.Array:
    """Returns logits [B, classes] for features [B, F], from the arrays of `fitted`."""

  @abc.abstractmethod
  def empty(self, rows: int, features: int, classes: int) -> Arrays:
    """Returns arrays of zeros with the shapes of `fitted` for N rows, F features and classes."""


@dataclasses.dataclass(frozen=True)
class Linear(Probe):
  """Multinomial logistic regression: the minimum of mean cross-entropy + penalty / 2 · ‖W‖².

  W [F, classes] acts on features that are standardised by the mean and standard deviation of the
  training rows; the fitted kernel includes the standardisation. The bias is not penalised.
  scikit-learn's C is 1 / (N · penalty), or 2 / (N · penalty) for two classes, for which it has one
  row of W instead of two.

  Attributes:
    penalties: the values to try; the best on held-out rows becomes the penalty.
  """

  name = 'linear'

  penalties: tuple[float, ...] = setting(
    (1e-4, 1e-3, 1e-2, 1e-1, 1.0), 'not empty, all above 0', lambda x: min(x, default=0) > 0
  )

  def candidates(self) -> Sequence[float]:
    """Returns the penalties to compare."""
    return self.penalties

  def fitted(self, features: np.ndarray, labels: np.ndarray, classes: int, option: float) -> Arrays:
    """Returns `kernel` [F, classes] and `bias` [classes], fitted by L-BFGS from zero."""
    mean, std = features.mean(0), features.std(0)
    std = np.where(std > _SMALL * np.abs(features).max(), std, 1.0)  # 1 for constant features
    x, y = jnp.asarray((features - mean) / std), jnp.asarray(_one_hot(labels, classes))
    shape = (x.shape[1] + 1, classes)  # W, and the bias as the last row

    def objective(flat: np.ndarray) -> tuple[float, np.ndarray]:
      """Returns the penalised loss and its gradient for the flattened weights and bias."""
      weights = jnp.asarray(flat.reshape(shape), jnp.float32)
      value, gradient = _loss_and_gradient(weights, x, y, option)
      return float(value), np.asarray(gradient, np.float64).ravel()

    start, limits = np.zeros(np.prod(shape)), {'maxiter': 500, 'gtol': 1e-5, 'ftol': 1e-8}
    optimum = scipy.optimize.minimize(objective, start, jac=True, method='L-BFGS-B', options=limits)
    if not optimum.success:
      logging.warning('linear probe of penalty %g is not converged: %s', option, optimum.message)
    weights = optimum.x.reshape(shape)
    standardised_kernel, bias = weights[:-1], weights[-1]
    kernel = standardised_kernel / std[:, None]
    return _float32(kernel=kernel, bias=bias - mean @ kernel)

  def __call__(self, arrays: PyTree, features: jax.Array) -> jax.Array:
    """Returns the logits [B, classes], features · kernel + bias."""
    return features @ arrays['kernel'] + arrays['bias'][None]

  def empty(self, rows: int, features: int, classes: int) -> Arrays:
    """See `Probe.empty`; returns a kernel [features, classes] and a bias [classes]."""
    return _float32(kernel=np.zeros((features, classes)), bias=np.zeros(classes))


@dataclasses.dataclass(frozen=True)
class Neighbors(Probe):
  """k nearest neighbours: the k training rows with the largest cosine similarity vote for a class.

  Logits are the logarithms of the classes' shares of the votes.

  Attributes:
    neighbors: the values to try; the best on held-out rows becomes k.
    votes: 'softmax' weighs a vote by exp(cosine / temperature), as DINO's authors do; 'uniform'
      counts votes, which has no gradient, so that attacks refuse it.
    temperature: the temperature of 'softmax'.
  """

  name = 'knn'

  neighbors: tuple[int, ...] = setting(
    (1, 5, 10, 20), 'not empty, all at least 1', lambda x: min(x, default=0) > 0
  )
  votes: str = word('softmax', ('softmax', 'uniform'))
  temperature: float = setting(0.07, 'above 0', lambda x: x > 0)

  def candidates(self) -> Sequence[float]:
    """Returns the values of k to compare."""
    return self.neighbors

  def takes(self, candidate: float, rows: int) -> bool:
    """Returns whether there are `candidate` or more training rows."""
    return candidate <= rows

  def fitted(self, features: np.ndarray, labels: np.ndarray, classes: int, option: float) -> Arrays:
    """Returns the arrays that `empty` explains, with features of unit length and k = `option`."""
    # Only the lengths of `ranks` and `classes` are used, as k and as the number of classes. Unlike
    # values, lengths are constants when compiled.
    arrays = _float32(
      rows=_unit_rows(features), ranks=np.zeros(int(option)), classes=np.zeros(classes)
    )
    return {**arrays, 'labels': labels.astype(np.int32)}

  def __call__(self, arrays: PyTree, features: jax.Array) -> jax.Array:
    """Returns log vote shares [B, classes]; a share below 1e-6 counts as 1e-6."""
    k = len(arrays['ranks'])  # a length, which is constant when compiled
    cosines, neighbors = _nearest_rows(_unit_on_device(features), arrays['rows'], k)
    if self.votes == 'softmax':
      weights = jax.nn.softmax(cosines / self.temperature)
    else:  # ones; an attack takes their derivative by `cosines`, which raises InputError
      weights = _no_gradient(1 + 0 * cosines)
    votes = jax.nn.one_hot(arrays['labels'][neighbors], len(arrays['classes']))
    shares = (weights[..., None] * votes).sum(-2) / weights.sum(-1, keepdims=True)
    return jnp.log(jnp.maximum(shares, _SMALL))

  def empty(self, rows: int, features: int, classes: int) -> Arrays:
    """See `Probe.empty`; k is the largest of `neighbors`.

    The arrays are the features of the training rows, `rows` [N, F], with their `labels` int32 [N];
    and zeros `ranks` [k] and `classes` [classes], which store k and the number of classes.

    Raises:
      InputError: all of `neighbors` exceed the number of training rows.
    """
    least = min(self.neighbors)
    if not self.takes(least, rows):
      raise InputError(f'{self.key("neighbors")} has {least}, and there are {rows} training rows.')
    k = min(max(self.neighbors), rows)
    arrays = _float32(rows=np.zeros((rows, features)), ranks=np.zeros(k), classes=np.zeros(classes))
    return {**arrays, 'labels': np.zeros(rows, np.int32)}


@dataclasses.dataclass(frozen=True)
class Prototype(Probe):
  """The nearest class mean: logits are scale · cosine(features, mean of the class).

  The mean is taken over features scaled to length 1.

  Attributes:
    scale: the scale of the logits, which changes probabilities but no prediction.
  """

  name = 'prototype'

  scale: float = setting(20.0, 'above 0', lambda x: x > 0)

  def candidates(self) -> Sequence[float]:
    """Returns one number, which `fitted` ignores, because there is no hyperparameter."""
    return (0,)

  def fitted(self, features: np.ndarray, labels: np.ndarray, classes: int, option: float) -> Arrays:
    """Returns the class means [classes, F] at unit length."""
    return _float32(means=_unit_rows(_one_hot(labels, classes).T @ _unit_rows(features)))

  def __call__(self, arrays: PyTree, features: jax.Array) -> jax.Array:
    """Returns logits [B, classes], each scale · cosine."""
    return self.scale * _unit_on_device(features) @ arrays['means'].T

  def empty(self, rows: int, features: int, classes: int) -> Arrays:
    """See `Probe.empty`; returns the means of classes, [classes, features]."""
    return _float32(means=np.zeros((classes, features)))


@jax.jit
@jax.value_and_grad
def _loss_and_gradient(
  map_and_bias: jax.Array, x: jax.Array, one_hot: jax.Array, penalty: float
) -> jax.Array:
  """Returns mean cross-entropy + `penalty` / 2 · ‖W‖², and by its decorator also the gradient.

  The gradient is with respect to W and bias, [F + 1, classes].

  Args:
    map_and_bias: [F + 1, classes], W with the bias as its last row.
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
  """Returns the arrays of a fitted probe, and facts about the fit as plain values.

  Rows are drawn at random and held out class by class. The candidate with the highest accuracy on
  the held-out rows is chosen, among equal ones the candidate with the smallest log loss; the probe
  is then fitted to all drawn rows. CLIP's authors also choose the penalty of L-BFGS by validation
  accuracy, among 96 values between 1e-6 and 1e6, and fit to all rows; they state no rule for ties.
  DINO's authors train the linear map by SGD on augmented images and sweep its learning rate instead
  of a penalty.

  Args:
    probe: the kind of probe and its settings.
    features: float32 [N, F].
    labels: int [N], positions in `class_names`.
    class_names: the classes; each one needs rows.
    seed: seed of the random choice of rows.

  Returns:
    The arrays, and the settings of the probe with `rows` (how many), `seed`, the `chosen` candidate
    if there are several, and its `held_out_accuracy` on `held_out_rows` rows.

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
  rows, held_out = drawn_rows(probe, labels, class_names, seed)
  candidates, classes = probe.candidates(), len(class_names)
  has_choice = len(candidates) > 1
  scores: dict[float, tuple[float, float]] = {}  # accuracy and log loss by candidate
  not_held_out = np.setdiff1d(rows, held_out)
  for candidate in candidates if has_choice else ():
    if probe.takes(candidate, len(not_held_out)):  # k nearest neighbours need k rows
      arrays = probe.fitted(features[not_held_out], labels[not_held_out], classes, candidate)
      scores[candidate] = accuracy_and_log_loss(probe, arrays, features[held_out], labels[held_out])
  if scores:  # highest accuracy, then smallest log loss
    best = min(scores, key=lambda candidate: (-scores[candidate][0], scores[candidate][1]))
  else:  # the first candidate for which all rows suffice; `Probe.empty` raised if there is none
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
  """Returns the indices of the rows drawn for a probe, and of the held-out rows, both ascending.

  Held-out rows are drawn rows. The arguments and errors are the same as in `fit`.
  """
  if labels.ndim != 1:
    raise InputError(f'{probe.section}: the training rows have several labels each.')
  has_choice = len(probe.candidates()) > 1
  if probe.rows_per_class == 1 and has_choice:
    raise InputError(
      f'{probe.key("rows_per_class")} is 1, but settings are chosen by rows of each class that are '
      'held out: give 2 or more, or one value of what is chosen (penalties, neighbors).'
    )
  generator = np.random.default_rng(seed)
  least = 2 if has_choice else 1  # a choice needs one row of a class to fit and one to hold out
  needed = max(probe.rows_per_class, least)
  drawn, held_out, too_small = [], [], dict[str, int]()
  for index, name in enumerate(class_names):
    rows_of_class = generator.permutation(np.flatnonzero(labels == index))
    rows = rows_of_class[: probe.rows_per_class or None]  # 0 takes all
    if len(rows) < needed:
      too_small[name] = len(rows)
    drawn.append(rows)
    # at least one row of a class is held out, and one is not
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
  """Returns a classifier with a layer 'features', the output of `layer` averaged over positions.

  Its logits are zeros, one for each of `class_names`.

  Raises:
    InputError: the network has no such layer (the nearest are listed), or is a callable.
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
    network, forward=forward, class_names=tuple(class_names), aliases={}, layers=(FEATURES, LOGITS)
  )


def num_features(network: Classifier, layer: str) -> int:
  """Returns F, the number of features [B, F] of a layer, without computing any."""
  extractor = features_of(network, layer, ())
  images = jax.ShapeDtypeStruct((2, *network.input_shape), jnp.float32)
  forward = lambda variables, images: extractor.forward(variables, images, ())  # noqa: E731
  _, outputs = jax.eval_shape(forward, network.variables, images)
  return int(outputs[FEATURES].shape[1])


def with_probe(
  network: Classifier, probe: Probe, arrays: Arrays, class_names: Sequence[str], facts: Facts
) -> Classifier:
  """Returns a classifier with the network's layers and the logits of a fitted probe.

  Args:
    network: the network.
    probe: the probe.
    arrays: the arrays of the fitted probe by name, as `Probe.fitted` returns them.
    class_names: the classes of the probe.
    facts: facts of `fit` for the provenance of the classifier.
  """
  layer = _single_layer(network, probe.layer)

  def forward(variables: PyTree, images: jax.Array, layers: tuple[str, ...]) -> Outputs:
    """Returns the logits of the probe [B, classes], and the outputs of the requested layers."""
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
    aliases={},
    provenance={**network.provenance, 'probe': facts} if facts else network.provenance,
  )


def _single_layer(network: Classifier, layer: str) -> str:
  """Returns the layer that a name or group of layers stands for; raises InputError for several."""
  names = network.select_layers((layer,))
  if len(names) > 1:
    raise InputError(f'a probe takes one layer of {network.name}: {", ".join(names)}.')
  return names[0]


def pooled(x: jax.Array) -> jax.Array:
  """Returns features [B, F]: `x` [B, F], [B, N, F] or [B, H, W, F], averaged over positions."""
  return jnp.mean(x, axis=tuple(range(1, x.ndim - 1))).astype(jnp.float32)


@jax.custom_jvp
def _no_gradient(x: jax.Array) -> jax.Array:
  """Returns `x`; taking the derivative raises InputError."""
  return x


@_no_gradient.defjvp
def _refuse_derivative(primals: PyTree, tangents: PyTree) -> PyTree:
  """Raises InputError, as a count of votes has no derivative by the features."""
  raise InputError(
    f"{KEYS.classifier.probe.knn.votes} is 'uniform', which has no gradient: set it to 'softmax'."
  )


def _nearest_rows(features: jax.Array, rows: jax.Array, k: int) -> _Nearest:
  """Returns the cosines and the indices of the k rows that are nearest to each of the features.

  `features` [B, F] and `rows` [N, F] have length 1, so that their products are cosines. Rows are
  searched in blocks, so that no array [B, N] is in memory. Of rows with equal products the first
  ones are taken.
  """
  size = min(len(rows), _ROWS_AT_ONCE)

  @jax.checkpoint  # else a gradient would keep the products of all blocks, [B, N]
  def search_block(best: _Nearest, start: jax.Array) -> tuple[_Nearest, None]:
    """Returns the nearest rows among `best`, which are before `start`, and the block at `start`."""
    best_products, best_indices = best
    # the last block overlaps the one before: of 10 rows in blocks of 4 it has rows 6 to 9
    first = jnp.minimum(start, len(rows) - size)
    indices = jnp.broadcast_to((first + jnp.arange(size))[None], (len(features), size))
    products = features @ jax.lax.dynamic_slice_in_dim(rows, first, size).T
    products = jnp.where(indices < start, -jnp.inf, products)  # without the overlap, rows 6 and 7
    values, ranks = jax.lax.top_k(jnp.concatenate([best_products, products], 1), k)
    indices = jnp.concatenate([best_indices, indices], 1)
    return (values, jnp.take_along_axis(indices, ranks, 1)), None

  no_rows = jnp.full((len(features), k), -jnp.inf), jnp.zeros((len(features), k), jnp.int32)
  best, _ = jax.lax.scan(search_block, no_rows, jnp.arange(0, len(rows), size))
  return best


def _unit_rows(x: np.ndarray) -> np.ndarray:
  """Returns the rows of `x` [N, F] scaled to length 1."""
  return x / np.maximum(np.linalg.norm(x, axis=-1, keepdims=True), _SMALL)


def _unit_on_device(x: jax.Array) -> jax.Array:
  """Returns the rows of `x` [N, F] scaled to length 1; rows of 0 stay, with a finite gradient."""
  return x / jnp.sqrt(jnp.maximum((x**2).sum(-1, keepdims=True), _SMALL**2))


def _one_hot(labels: np.ndarray, classes: int) -> np.ndarray:
  """Returns one-hot rows [N, classes], float32, for labels [N]."""
  return (labels[:, None] == np.arange(classes)).astype(np.float32)


def _float32(**arrays: np.ndarray) -> Arrays:
  """Returns the named arrays converted to float32."""
  return {name: np.asarray(array, np.float32) for name, array in arrays.items()}
