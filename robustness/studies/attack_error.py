"""Error under attacks with the network's gradient, and the spectra of what they add.

Each row is shown clean and as every attack leaves it (Yin et al. 2019, section 4.4, figure 7 a
and b); an attack is a view that is given the logits.
"""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

from robustness.attacks import balls, restarts
from robustness.attacks.losses import LOSSES
from robustness.core import parts
from robustness.core.parts import Part
from robustness.core.pixels import BFLOAT16_STEP
from robustness.core.rows import Rows
from robustness.core.settings import choice, require, require_fractions
from robustness.estimates.means import means
from robustness.estimates.outcomes import Outcomes
from robustness.estimates.quantity import CLEAN_ERROR, ERROR, Quantity
from robustness.evaluation import outcomes as recorded
from robustness.evaluation import study
from robustness.evaluation.prediction_summary import summarise
from robustness.evaluation.records import Records
from robustness.evaluation.study import Evaluation, Findings
from robustness.evaluation.views import Views
from robustness.figures import attack_error as attack_figures
from robustness.fourier import spectrum
from robustness.fourier.filters import high_pass, lowest_kept
from robustness.metrics import averages, energy_fraction, proportion
from robustness.metrics.view_shares import compare_with_first, share_arrays, view_shares
from robustness.results import Results
from robustness.sequential.study import SequentialStudy
from robustness.wording import attack_error as wording

ATTACK_ERROR = Quantity(
  'attack_error', 'top-1 error under the worst attack on each image', better='lower', headline=True
)
HIGH_FREQUENCY = Quantity('high_frequency', 'share of high frequency in the change')
CHANGE_NORM = Quantity('change_norm', 'L2 norm of the change', kind='amount', low=0)
RADIAL = Quantity('radial_amplitude', 'amplitude of the change', kind='amount', low=0)
CLEAN_HIGH_FREQUENCY = Quantity('clean_high_frequency', 'share of high frequency in clean images')
CLEAN_RADIAL = Quantity('clean_radial_amplitude', 'amplitude of clean images', kind='amount', low=0)

CLEAN = 0
"""Index of the clean view; attacks follow it, radius by radius."""

PACKAGE = 'robustness.attacks'
WHERE = 'config.study'


@dataclasses.dataclass(frozen=True)
class Study(SequentialStudy):
  """Settings of the study `attack_error`, beside `half_width` of `SequentialStudy`.

  Attributes:
    attacks: names of modules of `robustness.attacks`: 'pgd', 'fgsm', 'auto_pgd'.
    losses: that the attacks ascend, 'cross_entropy' or 'dlr'; each attack runs with each.
    norm: 'linf' or 'l2'.
    epsilon: ε, radius of the ball for pixels in [0, 1]; .03137 is 8/255.
    epsilons: further radii; step sizes are in proportion.
    steps: n ≥ 1, where an attack has steps.
    step_size: α at `epsilon`, where an attack has one.
    random_start: whether 'pgd' begins at a random point of the ball.
    restarts: runs from another random start, of which each image keeps the worst.
    bandwidth: of the high pass that the share of high frequency is measured by; see
      `robustness.fourier.filters.lowest_kept`.
    confidence: of all intervals.
    false_discovery_rate: of the paired tests of two classifiers.
  """

  name: ClassVar[str] = 'attack_error'
  papers: ClassVar[tuple[str, ...]] = ('yin2019fourier', 'madry2018towards')

  attacks: tuple[str, ...] = ('pgd',)
  losses: tuple[str, ...] = ('cross_entropy',)
  norm: str = 'linf'
  epsilon: float = 8 / 255
  epsilons: tuple[float, ...] = ()
  steps: int = 10
  step_size: float = 2 / 255
  random_start: bool = True
  restarts: int = 1
  bandwidth: int = 0
  confidence: float = 0.95
  false_discovery_rate: float = 0.05

  def __post_init__(self) -> None:
    super().__post_init__()
    for key, known in (('attacks', parts.modules(PACKAGE)), ('losses', LOSSES)):
      names = getattr(self, key)
      require(bool(names) and len(set(names)) == len(names), f'{WHERE}.{key}', names, 'distinct')
      for name in names:
        choice(f'{WHERE}.{key}', name, known)
    for epsilon in self.radii:
      balls.check(WHERE, self.norm, epsilon)
    require(
      len(set(self.radii)) == len(self.radii), f'{WHERE}.epsilons', self.epsilons, 'distinct radii'
    )
    for key in ('steps', 'restarts'):
      require(getattr(self, key) >= 1, f'{WHERE}.{key}', getattr(self, key), 'at least 1')
    require(self.step_size > 0, f'{WHERE}.step_size', self.step_size, 'above 0')
    require_fractions(self, WHERE, 'confidence', 'false_discovery_rate')

  def lost_in_bfloat16(self, image_shape: tuple[int, int, int] | None = None) -> str:
    """See `robustness.evaluation.study.Study`: what is rounded away looks like robustness."""
    if self.norm != 'linf' and image_shape is None:
      return ''
    unit = balls.mean_change(self.norm, 1.0, image_shape or ())
    if self.radii[0] * unit >= BFLOAT16_STEP:
      return ''
    least = f'give config.study.epsilon and epsilons of at least {BFLOAT16_STEP / unit:.6f}'
    return f'{least} (2**-8 a value), not {self.radii[0]:g}'

  @property
  def radii(self) -> tuple[float, ...]:
    """All ε, ascending."""
    return tuple(sorted((self.epsilon, *self.epsilons)))

  @property
  def runs(self) -> dict[str, Part]:
    """The attacks by name, those with a loss of several as `<attack>_<loss>`, with `epsilon`."""
    return {
      attack if len(self.losses) == 1 else f'{attack}_{loss}': self._part(attack, loss)
      for attack in self.attacks
      for loss in self.losses
    }

  def _part(self, attack: str, loss: str) -> Part:
    """Returns an attack with those of the study's settings that it has."""
    module = parts.modules(PACKAGE)[attack]
    keys = {field.name for field in dataclasses.fields(module.Settings)}
    own = {field.name for field in dataclasses.fields(self)}
    values = {key: getattr(self, key) for key in keys & own}
    return Part(attack, module.Settings(**values, loss=loss), module)

  def name_views(self, image_shape: tuple[int, int, int]) -> list[str]:
    """Returns 'clean', then names of the attacked views, such as 'pgd 0.03137'."""
    del image_shape
    return ['clean', *(f'{name} {epsilon:.4g}' for epsilon in self.radii for name in self.runs)]

  def views(self, image_shape: tuple[int, int, int]) -> Views:
    """Returns the clean view (id 0), then every attack at every ε, ascending.

    An id is a digest of attack, loss, norm and ε: random starts do not depend on what else a run
    holds. Of the clean view the spectrum is that of the images, of others that of the change.
    """
    table = [(epsilon, index) for epsilon in self.radii for index in range(len(self.runs))]
    runs = list(self.runs.values())
    ids = [_identifier(runs[index], epsilon) for epsilon, index in table]
    measures = spectrum.measures(high_pass(*image_shape[:2], self.bandwidth))

    def magnitude(
      row: Mapping[str, jax.Array], shown: jax.Array, view: Mapping[str, jax.Array]
    ) -> jax.Array:
      change = shown - jnp.where(view['epsilon'] == 0, 0, row['image'])
      return spectrum.half_magnitude(change)

    def total(
      row: Mapping[str, jax.Array],
      shown: jax.Array,
      view: Mapping[str, jax.Array],
      logits: Callable[[jax.Array], jax.Array],
    ) -> dict[str, jax.Array]:
      rank = summarise(logits(shown[None]), row['label'][None])['rank'][0]
      counted = (rank > 0) | (view['epsilon'] == 0)
      averaged = magnitude(row, shown, view).mean(-1)
      return {'spectrum': jnp.where(counted, averaged, 0), 'counted': counted.astype(jnp.float32)}

    return Views(
      self._shower(),
      np.array([0, *ids], np.int32),
      {
        'attack': np.array([-1, *(index for _, index in table)], np.int32),
        'epsilon': np.array([0, *(epsilon for epsilon, _ in table)], np.float32),
      },
      uses_classifier=True,
      measure=lambda row, shown, view, _: {
        **measures(magnitude(row, shown, view)),
        'largest': jnp.abs(shown - row['image']).max(),
      },
      total=total,
    )

  def _shower(self) -> Callable[..., jax.Array]:
    """Returns the view function: one branch an attack, ε traced."""

    def show(
      key: jax.Array,
      row: Mapping[str, jax.Array],
      view: Mapping[str, jax.Array],
      logits: Callable[[jax.Array], jax.Array],
    ) -> jax.Array:
      def branch(part: Part) -> Callable[..., jax.Array]:
        count = self.restarts if part.settings.draws else 1

        def attacked(scale: jax.Array) -> jax.Array:
          image, label = row['image'][None], row['label'][None]
          return restarts.worst(
            lambda keys: part.module.attack(keys, logits, image, label, part.settings, scale),
            key[None],
            logits,
            label,
            count,
          )[0]

        return attacked

      branches = [lambda scale: row['image'], *map(branch, self.runs.values())]
      return jax.lax.switch(view['attack'] + 1, branches, view['epsilon'] / self.epsilon)

    return show

  @property
  def shown_as(self) -> dict[str, str]:
    """See `robustness.evaluation.study.Study`."""
    radii = ', '.join(f'{epsilon:.4g}' for epsilon in self.radii)
    each = f'{self.steps} steps of {self.step_size:.4g}, {self.restarts} run(s)'
    return {'attacks': f'{", ".join(self.runs)} in the {self.norm} ball of {radii}; {each}'}

  def differences(self, records: Records, image_shape: tuple[int, int, int]) -> list[str]:
    """See `robustness.evaluation.study.Study`."""
    own = ' and '.join(self.attacks)
    return [*super().differences(records, image_shape), f'{own}, not AutoAttack: a lower bound']

  def check_rows(self, rows: Rows) -> None:
    """Refuses rows with several labels each: an attack ascends the loss of one."""
    study.require_single_labels(rows, 'an attack')
    super().check_rows(rows)

  def reduce(
    self, evaluations: Sequence[Evaluation], image_shape: tuple[int, int, int]
  ) -> Findings:
    """Returns errors under each attack and under the worst of them, and spectra of their changes.

    Numbers: `clean_error`; `attack_error`, where an image is wrong at `epsilon` under any of the
    attacks; with several attacks `attack_error/<attack>`; of the wrong ones `high_frequency/...`
    and `change_norm/...` (‖δ‖₂). Arrays, of E radii and A attacks: `epsilon` [E], `attack` [A],
    `error` [E, A] and `worst_error` [E] with `_low` and `_high`, `spectrum` [E, A, H, W] (mean
    |F(δ)| over the images that the attack leaves wrong, which include those that were wrong before;
    NaN where there is none), `largest_change` [E, A] (of a pixel, over all images),
    `clean_spectrum` [H, W], `radial` [E, A, R] with `_low` and `_high`; for a second classifier
    `<label>/difference` [E] and its like, of the worst errors. Of a sequential design also `images`
    [E, A], n of each error; the worst of several attacks, spectra and differences are of the images
    that all views have.
    """
    findings = Findings(
      arrays={
        'epsilon': np.array(self.radii),
        'attack': np.array(list(self.runs)),
        'frequency_y': np.arange(image_shape[0]) - image_shape[0] // 2,
        'frequency_x': np.arange(image_shape[1]) - image_shape[1] // 2,
        'radius': spectrum.measures(high_pass(*image_shape[:2], self.bandwidth)).radii,
        'high_pass_lowest': np.array(lowest_kept(*image_shape[:2], self.bandwidth)),
      }
    )
    worst = {}
    for evaluation, prefix in zip(evaluations, study.prefixes(evaluations), strict=True):
      wrong = evaluation.records.table('rank') > 0
      worst[evaluation.label] = self._errors(findings, evaluation, wrong, prefix)
      self._spectra(findings, evaluation.records, wrong, prefix, image_shape)
    findings.estimates = self._estimates(evaluations, worst, findings.arrays['radius'])
    if len(evaluations) > 1:
      self._comparison(findings, worst)
    return findings

  @property
  def quantities(self) -> tuple[Quantity, ...]:
    """See `robustness.evaluation.study.Study`."""
    of_changes = HIGH_FREQUENCY, CHANGE_NORM, RADIAL
    return (ATTACK_ERROR, CLEAN_ERROR, ERROR, *of_changes, CLEAN_HIGH_FREQUENCY, CLEAN_RADIAL)

  def _estimates(
    self, evaluations: Sequence[Evaluation], worst: Mapping[str, np.ndarray], radii: np.ndarray
  ) -> list[pd.DataFrame]:
    """Returns the rows of the table of results."""
    table = [(name, epsilon) for epsilon in self.radii for name in self.runs]
    views = pd.DataFrame([(None, None), *table], columns=['attack', 'epsilon'])
    of_worst = pd.DataFrame({'epsilon': [None, *self.radii]})
    given: dict[str, Any] = {'confidence': self.confidence, 'test': True}
    wrong = recorded.outcomes(evaluations, recorded.wrong, views)
    clean = np.arange(len(views)) == CLEAN
    parts = [
      means(CLEAN_ERROR, wrong, where=clean, **given),
      means(ERROR, wrong, ('attack', 'epsilon'), **given),
      means(ATTACK_ERROR, Outcomes(worst, of_worst), ('epsilon',), **given),
    ]
    for evaluation in evaluations:
      records = evaluation.records
      shown = records.table('rank') > 0
      shown[:, CLEAN] = True
      energy = np.where(shown, records.table('measure/energy').astype(float), np.nan)
      fraction = energy_fraction(records.table('measure/high_energy'), energy)
      for quantity, values in ((HIGH_FREQUENCY, fraction), (CHANGE_NORM, np.sqrt(energy))):
        changed = Outcomes({evaluation.label: values.astype(float)}, views)
        parts.append(means(quantity, changed, ('attack', 'epsilon'), confidence=self.confidence))
        if quantity is HIGH_FREQUENCY:
          own = means(CLEAN_HIGH_FREQUENCY, changed, confidence=self.confidence, where=clean)
          parts.append(own)
      rings = np.where(shown[..., None], records.table('measure/rings').astype(float), np.nan)
      for place, radius in enumerate(radii.tolist()):
        amplitude = Outcomes({evaluation.label: rings[..., place]}, views)
        of_ring: dict[str, Any] = {'confidence': self.confidence, 'facets': {'radius': radius}}
        parts.append(means(RADIAL, amplitude, ('attack', 'epsilon'), **of_ring))
        parts.append(means(CLEAN_RADIAL, amplitude, where=clean, **of_ring))
    return parts

  def _grid(self, values: np.ndarray) -> np.ndarray:
    """Returns values by view [V, ...] without the clean one, [E, A, ...]."""
    return values[CLEAN + 1 :].reshape(len(self.radii), len(self.runs), *values.shape[1:])

  def _errors(
    self, findings: Findings, evaluation: Evaluation, wrong: np.ndarray, prefix: str
  ) -> np.ndarray:
    """Adds errors; returns whether each image is wrong clean, and under any attack, [N, 1 + E]."""
    n, at = len(wrong), self.radii.index(self.epsilon)
    table = wrong[:, CLEAN + 1 :].reshape(n, len(self.radii), len(self.runs))
    worst = np.concatenate([wrong[:, CLEAN, None], table.any(2)], 1)
    numbers, arrays = findings.numbers, findings.arrays
    shares = view_shares(evaluation.counted, lambda shard: shard['rank'] > 0, self.confidence)
    own = {name: self._grid(values) for name, values in shares.arrays('error').items()}
    of_worst = share_arrays(worst[:, 1:], 'error', self.confidence)
    first = CLEAN + 1 + at * len(self.runs)
    numbers[f'{prefix}clean_error'] = shares.number(CLEAN)
    if len(self.runs) > 1:
      count = int(worst[:, 1 + at].sum())
      numbers[f'{prefix}attack_error'] = proportion(count, n, self.confidence)
      for index, name in enumerate(self.runs):
        numbers[f'{prefix}attack_error/{name}'] = shares.number(first + index)
    else:
      numbers[f'{prefix}attack_error'] = shares.number(first)
      of_worst = {name: values[:, 0] for name, values in own.items()}
    arrays.update({f'{prefix}{k}': v for k, v in own.items()})
    arrays.update({f'{prefix}worst_{k}': v for k, v in of_worst.items()})
    if evaluation.rounds:
      arrays[f'{prefix}images'] = self._grid(evaluation.shown)
    return worst

  def _spectra(
    self,
    findings: Findings,
    records: Records,
    wrong: np.ndarray,
    prefix: str,
    image_shape: tuple[int, int, int],
  ) -> None:
    counted = records.total('counted')[:, None, None]
    total = spectrum.whole(records.total('spectrum'), image_shape[1])
    mean = np.where(counted > 0, total / np.maximum(counted, 1), np.nan).astype(np.float32)
    shown = wrong.copy()
    shown[:, CLEAN] = True
    rings = np.where(shown[..., None], records.table('measure/rings'), np.nan)
    radial = averages(rings, self.confidence, RADIAL.range)
    energy = np.where(shown, records.table('measure/energy').astype(float), np.nan)
    fraction = averages(
      energy_fraction(records.table('measure/high_energy'), energy),
      self.confidence,
      HIGH_FREQUENCY.range,
    )
    norm = averages(np.sqrt(energy), self.confidence, CHANGE_NORM.range)
    findings.arrays[f'{prefix}clean_spectrum'] = mean[CLEAN]
    findings.arrays[f'{prefix}spectrum'] = self._grid(mean)
    for name, values in radial.arrays('radial').items():
      findings.arrays[f'{prefix}clean_{name}'] = values[CLEAN]
      findings.arrays[f'{prefix}{name}'] = self._grid(values)
    findings.numbers[f'{prefix}high_frequency/clean'] = fraction.number(CLEAN)
    at = CLEAN + 1 + self.radii.index(self.epsilon) * len(self.runs)
    for index, name in enumerate(self.runs):
      for quantity, averaged in (('high_frequency', fraction), ('change_norm', norm)):
        number = averaged.number(at + index)
        note = '' if number.n else 'no image is wrong under this attack'
        findings.numbers[f'{prefix}{quantity}/{name}'] = dataclasses.replace(number, note=note)
    largest = records.table('measure/largest').max(0)
    findings.arrays[f'{prefix}largest_change'] = self._grid(largest)

  def _comparison(self, findings: Findings, worst: Mapping[str, np.ndarray]) -> None:
    """Adds the paired differences of every other classifier from the first."""
    views = ['clean', *(f'epsilon {epsilon:.4g}' for epsilon in self.radii)]
    differences, findings.tables['comparison'] = compare_with_first(
      'error', worst, views, self.confidence, self.false_discovery_rate
    )
    for label, arrays in differences.items():
      findings.arrays.update({f'{label}/{name}': value[1:] for name, value in arrays.items()})

  def figures(self, results: Results) -> dict[str, tuple[Any, str]]:
    """See `robustness.evaluation.study.Study`."""
    return attack_figures.draw(results)

  def sentences(self, results: Results) -> list[str]:
    """See `robustness.evaluation.study.Study`."""
    return wording.sentences(results)


def _identifier(part: Part, epsilon: float) -> int:
  """Returns a view's id: a digest of what the attack is, in 1..2³¹ − 1."""
  words = f'{part.name} {part.settings.loss} {part.settings.norm} {epsilon:.6g}'
  return zlib.crc32(words.encode()) % (2**31 - 1) + 1
