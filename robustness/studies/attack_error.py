"""Error under attacks with the network's gradient, and the spectra of what they add.

Each row is shown clean and as every attack leaves it (Yin et al. 2019, section 4.4, figure 7 a
and b); an attack is a view that is given the logits.
"""

import dataclasses
import functools
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from absl import logging

from robustness.attacks import ATTACKS, Attack, Flag, Logits, balls
from robustness.core import settings
from robustness.core.errors import KEYS, naming
from robustness.core.pixels import BFLOAT16_STEP
from robustness.core.registry import Part, part_name, setting
from robustness.core.rows import Rows
from robustness.core.typing import Facts
from robustness.estimates.facets import ATTACK, EPSILON, Facet
from robustness.estimates.means import energy_fraction
from robustness.estimates.outcomes import Outcomes
from robustness.estimates.quantity import CLEAN_ERROR, ERROR, Quantity, declare_error
from robustness.estimates.table import select
from robustness.evaluation.measurements import summarise
from robustness.evaluation.outcomes import Evaluation, Recorded
from robustness.evaluation.records import RecordsReader, Shard
from robustness.evaluation.study import (
  Figures,
  Findings,
  ImageShape,
  Recipes,
  Study,
  require_single_labels,
)
from robustness.evaluation.views import Arrays, Views, ViewTable
from robustness.fourier import spectrum
from robustness.fourier.filters import high_pass
from robustness.present import charts, style
from robustness.present.maps import spectrum_panels
from robustness.present.notation import value_text
from robustness.results import Results, Table

ATTACK_ERROR = declare_error(
  'attack_error',
  'top-1 error under the worst attack on each image',
  headline=True,
  reference=CLEAN_ERROR.name,
)
ERROR_AFTER = Quantity(
  'error_after',
  'top-1 error under an attack of AutoAttack or one before it',
  better='lower',
  drawn=True,
  reference='clean_error',
)
HIGH_FREQUENCY = Quantity(
  'high_frequency',
  'share of high frequency in changes that leave an image wrong',
  drawn=True,
  reference='clean_high_frequency',
  statistic=energy_fraction,
)
CLEAN_HIGH_FREQUENCY = Quantity(
  'clean_high_frequency', 'share of high frequency in clean images', statistic=energy_fraction
)
_amount = functools.partial(Quantity, kind='amount', low=0)
CHANGE_NORM = _amount(
  'change_norm', 'ℓ2 norm of changes that leave an image wrong', statistic=np.sqrt
)
LARGEST_CHANGE = _amount('largest_change', 'largest change of a pixel')
_radial = functools.partial(_amount, statistic=np.positive)
RADIAL = _radial('radial_amplitude', 'mean |F| of changes that leave an image wrong')
CLEAN_RADIAL = _radial('clean_radial_amplitude', 'mean |F| of clean images')
FLAGGED = Quantity('flagged', 'share of images that raise a flag of AutoAttack')
STAGE = Facet('stage', 'attack, after those before it', '', False, 'after {}', 'attacks')

CLEAN = 0
"""Index of the clean view; attacks follow it, radius by radius."""

EARLIER = {'losses': 'loss'} | {
  key: key for key in ('version', 'iterations', 'queries', 'steps', 'step_size', 'random_start')
}
"""Keys of `config.study` in earlier versions, for all attacks with such a field, and their names in
the section of an attack."""
FLAG_COLUMNS = 'classifier', 'epsilon', 'flag', 'images', 'of'


@dataclasses.dataclass(frozen=True)
class AttackError(Study):
  """Settings; `half_width` shows views in rounds, see `Study`.

  Attributes:
    attacks: names of attacks: 'pgd', 'fgsm', 'auto_pgd', 'fab', 'square', 'auto_attack' or
      `FILE.py:NAME`; LABEL=NAME takes an attack again with other settings.
    attack: the settings of each attack in a section of its name or label, such as
      `config.study.attack.pgd.steps`.
    norm: 'linf' or 'l2'.
    epsilon: ε, radius of the ball for pixels in [0, 1]; .03137 is 8/255.
    epsilons: further radii; step sizes are in proportion.
    restarts: number of runs from random starts; the worst counts for each image.
    bandwidth: of the high pass, see `robustness.fourier.filters.lowest_kept`.
  """

  title: ClassVar[str] = 'Error under attacks'
  described_facets = (STAGE,)
  set_by_study: ClassVar[tuple[str, ...]] = ('norm', 'epsilon', 'statistics')
  moved_keys: ClassVar[Mapping[str, str]] = {
    key: f'attack.ATTACK.{new}, of each ATTACK that has it' for key, new in EARLIER.items()
  }
  papers: ClassVar[tuple[str, ...]] = ('yin2019fourier', 'madry2018towards')

  half_width: float = 0.0
  attacks: tuple[str, ...] = setting(('pgd',), 'not empty', bool)
  attack: Facts = dataclasses.field(default_factory=dict, hash=False)
  norm: str = 'linf'
  epsilon: float = 8 / 255
  epsilons: tuple[float, ...] = ()
  restarts: int = setting(1, 'at least 1', lambda x: x >= 1)
  bandwidth: int = 0
  false_discovery_rate: float = 0.05

  def __post_init__(self) -> None:
    super().__post_init__()
    balls.check(self.section, self.norm, self.epsilon)
    for epsilon in self.epsilons:
      balls.check(self.section, self.norm, epsilon, 'epsilons')
    runs = self.runs
    self.require(len(runs) == len(self.attacks), 'attacks', 'distinct')
    for label in self.attack.keys() - runs.keys():
      self._attack(label)  # a misspelt key never passes
    drawn = self.restarts == 1 or any(run.draws and not run.stages for run in runs.values())
    valid = f'1, as {" and ".join(runs)} draws nothing or has its own restarts'
    self.require(drawn, 'restarts', valid)
    distinct = len({f'{epsilon:.4g}' for epsilon in self.radii}) == len(self.radii)
    self.require(distinct, 'epsilons', 'radii that are distinct in four digits')

  def lost_in_bfloat16(self, image_shape: ImageShape | None = None) -> str:
    """See `Study`: what is rounded away looks like robustness."""
    if self.norm != 'linf' and image_shape is None:
      return ''
    unit = balls.mean_change(self.norm, 1.0, image_shape or ())
    if self.radii[0] * unit >= BFLOAT16_STEP:
      return ''
    least = f'give {KEYS.study.epsilon} and epsilons of at least {BFLOAT16_STEP / unit:.6f}'
    return f'{least} (2**-8 a value), not {self.radii[0]:g}'

  @property
  def ball(self) -> str:
    """The norm as papers write it."""
    return 'ℓ∞' if self.norm == 'linf' else 'ℓ2'

  @property
  def radii(self) -> tuple[float, ...]:
    """All ε, ascending."""
    return tuple(sorted((self.epsilon, *self.epsilons)))

  @classmethod
  def chosen_parts(cls, study: Facts) -> dict[str, dict[str, type[Part]]]:
    """See `Study`."""
    return {'attack': dict(map(_part, study['attacks']))}

  @property
  def references(self) -> tuple[str, ...]:
    return tuple(entry.rpartition('=')[2] for entry in self.attacks)

  @classmethod
  def from_earlier(cls, study: Facts) -> Facts:
    """See `Study`; `losses` made a run of each attack for each loss."""
    moved = {new: study[key] for key, new in EARLIER.items() if key in study}
    if not moved:
      return study
    all_losses, entries, sections = moved.pop('loss', (Attack.loss,)), [], {}
    for reference in study['attacks']:
      name, attack = _part(reference)
      section = {f.name: moved[f.name] for f in dataclasses.fields(attack) if f.name in moved}
      in_turn = settings.parse(attack, section, cls.section).in_turn
      losses = (Attack.loss,) if in_turn else all_losses
      for loss in losses:
        label = name if len(losses) == 1 else f'{name}_{loss}'
        entries.append(reference if label == name else f'{label}={reference}')
        sections[label] = {**section, 'loss': loss}
    unchanged = {key: value for key, value in study.items() if key not in EARLIER}
    today = {**unchanged, 'attacks': entries, 'attack': sections}
    return {**today, **cls.sections_of_parts(today)}

  @property
  def runs(self) -> dict[str, Attack]:
    """The attacks by label, with `epsilon`."""
    return dict(map(self._attack, self.attacks))

  def _attack(self, entry: str) -> tuple[str, Attack]:
    """Returns label and attack of an entry of `attacks`."""
    settings.check_sections(self.attack, self.attack, f'{self.section}.attack')
    label, part = _part(entry)
    settings.check_name(f'{self.section}.attacks', label)
    key, section = f'{self.section}.attack.{label}', self.attack.get(label, {})
    settings.refuse_unknown(section, self.settings_of(part), key)
    with naming(f'{part.section}.{part.name}', key):
      values = {**section, 'norm': self.norm, 'epsilon': self.epsilon}
      return label, settings.parse(part, values, key)

  @property
  def _ensembles(self) -> dict[str, Attack]:
    return {name: attack for name, attack in self.runs.items() if attack.stages}

  def view_table(self, image_shape: ImageShape) -> ViewTable:
    """Names the views 'clean' and, for example, 'PGD 8/255'."""
    radii = [value_text(EPSILON, epsilon) for epsilon in self.radii]
    names = [value_text(ATTACK, name) for name in self.runs]
    attacked = (f'{name} {radius}' for radius in radii for name in names)
    return ViewTable.of(['clean', *attacked])

  def views(self, image_shape: ImageShape) -> Views:
    """Returns the clean view (id 0), then every attack at every ε, ascending.

    An id is a digest of label, loss, norm and ε: random starts do not depend on what else a run
    holds. The spectrum is of the images in the clean view, and of the change in the others.
    """
    labels, runs = [*self.runs], [*self.runs.values()]
    table = [(epsilon, index) for epsilon in self.radii for index in range(len(runs))]
    named = (f'{labels[i]} {runs[i].loss} {self.norm} {epsilon:.6g}' for epsilon, i in table)
    ids = [zlib.crc32(words.encode()) % (2**31 - 1) + 1 for words in named]
    measures = spectrum.measures(high_pass(*image_shape[:2], self.bandwidth))

    def show(
      keys: jax.Array, rows: Arrays, view: Arrays, logits: Logits
    ) -> tuple[jax.Array, dict[str, jax.Array]]:
      no = jnp.zeros(len(keys), bool)
      observed = {'stage': no.astype(jnp.int32), 'no_gradient': no, 'random': no}
      unobserved = observed if self._ensembles else {}  # of attacks without stages, see `Attack`

      def attacked(attack: Attack, scale: jax.Array) -> tuple[jax.Array, dict[str, jax.Array]]:
        images = rows['image']
        if attack.stages:  # a row that pads the batch is wrong by itself, and costs nothing
          labels = jnp.where(rows['mask'], rows['label'], -1)
          return attack.observed(keys, logits, images, labels, scale)
        worst = attack.worst(self.restarts, keys, logits, images, rows['label'], scale)
        return worst, unobserved

      attacks = (functools.partial(attacked, run) for run in runs)
      clean = rows['image'], unobserved
      branches: list[Callable[..., tuple[jax.Array, dict[str, jax.Array]]]] = [lambda _: clean]
      branches += attacks
      return jax.lax.switch(view['attack'] + 1, branches, view['epsilon'] / self.epsilon)

    def magnitude(row: Arrays, image: jax.Array, view: Arrays) -> jax.Array:
      change = image - jnp.where(view['epsilon'] == 0, 0, row['image'])
      return spectrum.half_magnitude(change)

    def total(row: Arrays, image: jax.Array, view: Arrays, logits: Logits) -> Arrays:
      rank = summarise(logits(image[None]), row['label'][None])['rank'][0]
      changed = (image != row['image']).any()
      counted = ((rank > 0) & changed) | (view['epsilon'] == 0)
      averaged = magnitude(row, image, view).mean(-1)
      return {'spectrum': jnp.where(counted, averaged, 0), 'counted': counted.astype(jnp.float32)}

    return Views(
      show,
      np.array([0, *ids], np.int32),
      {
        'attack': np.array([-1, *(index for _, index in table)], np.int32),
        'epsilon': np.array([0, *(epsilon for epsilon, _ in table)], np.float32),
      },
      uses_classifier=True,
      together=True,
      measure=lambda row, image, view, _: {
        **measures(magnitude(row, image, view)),
        'largest': jnp.abs(image - row['image']).max(),
      },
      total=total,
    )

  @property
  def shown_as(self) -> dict[str, str]:
    radii = ', '.join(value_text(EPSILON, epsilon) for epsilon in self.radii)
    words = {
      label: ', '.join(filter(None, (run.words, f'{run.loss} loss' * (run.loss != Attack.loss))))
      for label, run in self.runs.items()
    }
    listed = ', '.join(
      value_text(ATTACK, label) + (f' ({settings})' if settings else '')
      for label, settings in words.items()
    )
    drawn = [
      value_text(ATTACK, name)
      for name, attack in self.runs.items()
      if attack.draws and not attack.stages
    ]
    of_drawn = f' of {" and ".join(drawn)}' if len(drawn) < len(words) else ''
    worst = f'; the worst of {self.restarts} random starts{of_drawn}' if self.restarts > 1 else ''
    return {'attacks': f'{listed} in the {self.ball} ball of {radii}{worst}'}

  def differences(self, records: RecordsReader, image_shape: ImageShape) -> list[str]:
    differences = super().differences(records, image_shape)
    weaker = [attack.shortcoming for attack in self.runs.values()]
    if all(weaker):
      differences.append(f'{" and ".join(weaker)}, not AutoAttack: a lower bound')
    return differences

  def check(self, rows: Rows, recipes: Recipes) -> None:
    """Refuses rows with several labels each: an attack ascends the loss of one."""
    require_single_labels(rows, 'an attack')
    super().check(rows, recipes)

  @property
  def quantities(self) -> tuple[Quantity, ...]:
    of_each = dataclasses.replace(ERROR, headline=len(self.runs) > 1)
    of_stages = (ERROR_AFTER,) if self._ensembles else ()
    of_changes = HIGH_FREQUENCY, CHANGE_NORM, LARGEST_CHANGE, RADIAL
    of_images = CLEAN_HIGH_FREQUENCY, CLEAN_RADIAL
    alone = value_text(ATTACK, next(iter(self.runs)))
    under = f'the worst {self.ball} attack on each image'
    words = f'top-1 error under {under if len(self.runs) > 1 else f"{self.ball} {alone}"}'
    worst = dataclasses.replace(ATTACK_ERROR, words=words)
    return (worst, CLEAN_ERROR, of_each, *of_stages, *of_changes, *of_images)

  def facets(self, image_shape: ImageShape) -> pd.DataFrame:
    """Returns attack and radius of each view, none of the clean one."""
    attacked = [(name, epsilon) for epsilon in self.radii for name in self.runs]
    return pd.DataFrame([(None, None), *attacked], columns=['attack', 'epsilon'])

  def estimates(self, recorded: Recorded) -> Iterator[pd.DataFrame]:
    """Yields errors clean, under each attack and under the worst of them at each radius, and size
    and frequency of the changes, over the images that they leave wrong.

    Images that were wrong before are among these if the attack changes them, as attacks with steps
    do and AutoAttack, FAB and Square do not. In a sequential design the worst of several attacks,
    and all measures of changes, are of the images that all views have.
    """
    views, by = recorded.views, ('attack', 'epsilon')
    clean = views.attack.isna().to_numpy()
    yield self.means(CLEAN_ERROR, recorded, where=clean, test=True)
    yield self.means(ERROR, recorded, by, test=True)
    for name, attack in self._ensembles.items():
      is_shown = (views.attack == name).to_numpy()
      for number, stage in enumerate(attack.stages, 1):
        after = dataclasses.replace(ERROR_AFTER, statistic=functools.partial(_fell_by, number))
        facets = {'stage': stage}
        yield self.means(after, recorded, ('epsilon',), where=is_shown, facets=facets, test=True)
    under_worst = recorded.outcomes(ATTACK_ERROR)
    if len(self.runs) > 1:
      under_worst = under_worst.common.combined(('epsilon',), lambda wrong: wrong.any(1))
    worst = self.means(ATTACK_ERROR, under_worst, ('epsilon',), test=True)
    shortened = filter(None, (attack.shortcoming for attack in self._ensembles.values()))
    if note := ' and '.join(shortened):
      worst.loc[worst.versus == '', 'note'] = f"{note}, fewer than its authors': a lower bound"
    yield worst
    energy, high = (_of_changes(recorded, f'measure/{k}') for k in ('energy', 'high_energy'))
    energies, clusters = {k: (high[k], energy[k]) for k in energy}, recorded.clusters
    shares = Outcomes.from_fields(HIGH_FREQUENCY, energies, views, clusters=clusters)
    yield self.means(HIGH_FREQUENCY, shares, by, paired=False)
    yield self.means(CLEAN_HIGH_FREQUENCY, shares, where=clean, paired=False)
    norms = Outcomes.from_fields(CHANGE_NORM, energy, views, clusters=clusters)
    yield self.means(CHANGE_NORM, norms, by, paired=False)
    for evaluation in recorded.evaluations:
      largest = evaluation.records.table('measure/largest')
      value = largest.max(0)[~clean].astype(float)
      yield self.arrays(LARGEST_CHANGE, evaluation.label, views[~clean], value, n=len(largest))

  def _flags(self, recorded: Recorded) -> dict[str, Table]:
    """Returns which images raise a flag of AutoAttack; logs those that say it may have failed."""
    rows: list[list[object]] = []
    for name, attack in self._ensembles.items():
      of_attack = (recorded.views.attack == name).to_numpy()
      for words, flag in attack.flags.items():
        flagged = dataclasses.replace(FLAGGED, statistic=functools.partial(_shows, flag))
        outcomes = recorded.outcomes(flagged)
        for group in outcomes.groups(('epsilon',), of_attack):
          for label in outcomes.labels:
            sums = outcomes.sums(label, group)
            count, epsilon = int(sums.total.sum()), group.facets['epsilon']
            radius = value_text(EPSILON, epsilon)
            rows.append([label, radius, words, count, sums.n])
            if count > flag.tolerated * sums.n:
              logged = label, radius, count, sums.n, words
              logging.warning('%s, ε = %s: %d of %d images %s', *logged)
    return {'flags of AutoAttack': Table(FLAG_COLUMNS, rows)} if rows else {}

  def reduce(self, evaluations: Sequence[Evaluation], image_shape: ImageShape) -> Findings:
    """Returns the table of results with amplitudes by |f|, and pictures.

    The pictures are mean |F(δ)| by radius and attack over the images that the attack leaves wrong
    (NaN where it leaves none), `<label>/spectrum` [E, A, H, W], and mean |F| of the clean images,
    `<label>/clean_spectrum` [H, W].
    """
    recorded = Recorded(evaluations, self.facets(image_shape))
    radii = spectrum.measures(high_pass(*image_shape[:2], self.bandwidth)).radii
    views = recorded.views.merge(pd.DataFrame({'radius': radii}), how='cross')
    rings = _of_changes(recorded, 'measure/rings')
    of_rings = Outcomes.from_fields(RADIAL, rings, views, clusters=recorded.clusters)
    clean = views.attack.isna().to_numpy()
    amplitudes = (
      self.means(RADIAL, of_rings, ('attack', 'epsilon', 'radius'), paired=False),
      self.means(CLEAN_RADIAL, of_rings, ('radius',), where=clean, paired=False),
    )
    estimates = [*self.estimates(recorded), *amplitudes]
    findings = Findings(tables=self._flags(recorded), estimates=estimates)
    for evaluation in evaluations:
      counted = evaluation.records.total('counted')[:, None, None]
      total = spectrum.full_map(evaluation.records.total('spectrum'), image_shape[1])
      mean = np.where(counted > 0, total / np.maximum(counted, 1), np.nan).astype(np.float32)
      grid = mean[CLEAN + 1 :].reshape(len(self.radii), len(self.runs), *image_shape[:2])
      findings.arrays[f'{evaluation.label}/spectrum'] = grid
      findings.arrays[f'{evaluation.label}/clean_spectrum'] = mean[CLEAN]
    return findings

  def figures(self, results: Results) -> Figures:
    """Returns the default pictures, amplitudes by |f| and spectra, both at `epsilon`."""
    figures, facets = charts.draw(results), ('attack', 'epsilon', 'radius')
    rows = select(results.table, RADIAL.name, attack=..., epsilon=self.epsilon, radius=...)
    if rows['value'].isna().all():  # no image is wrong
      return figures
    figures['radial'] = charts.of_rows(rows, RADIAL, facets, results.labels)['']
    for axes in figures['radial'][0].axes:
      style.log_scale(axes)
    counted = select(results.table, CHANGE_NORM.name, attack=..., epsilon=self.epsilon)
    n = counted.set_index(['classifier', 'attack'])['n']
    at = self.radii.index(self.epsilon)
    maps = {
      f'{label}, {value_text(ATTACK, attack)} ({n[label, attack]})': spectra[at, place]
      for label in results.labels
      for spectra in [results.arrays[f'{label}/spectrum']]
      for place, attack in enumerate(self.runs)
    }
    figure = spectrum_panels([*maps], [*maps.values()], decades=0, quantity='mean |F(δ)|')
    radius = value_text(EPSILON, self.epsilon)
    caption = (
      f'Mean |F(δ)| over the images that the attack leaves wrong at ε = {radius} in {self.ball}, '
      'zero frequency in the centre, one logarithmic scale; in brackets, of how many.'
    )
    return {**figures, 'spectra': (figure, caption)}


def _part(entry: str) -> tuple[str, type[Attack]]:
  """Returns label and class of an entry of `attacks`, LABEL=NAME or NAME."""
  label, _, name = entry.rpartition('=')
  return label or part_name(name), ATTACKS.find(name, f'{AttackError.section}.attacks')


def _of_changes(recorded: Recorded, name: str) -> dict[str, np.ndarray]:
  """Returns a field of records [N, V, ...] by label: its values of clean images and of images that
  an attack changed and left wrong, else NaN."""
  values = {}
  for evaluation in recorded.evaluations:
    records = evaluation.records
    changed = (records.table('rank') > 0) & (records.table('measure/largest') > 0)
    counts = changed | (np.arange(len(recorded.views)) == CLEAN)
    measured = evaluation.records.table(name).astype(float)
    values[evaluation.label] = np.where(counts.T, measured.T, np.nan).T
  return values


def _fell_by(number: int, shard: Shard) -> np.ndarray:
  """Returns whether images are wrong after so many attacks of an ensemble, bool [n, v]."""
  return shard['measure/stage'] <= number


def _shows(flag: Flag, shard: Shard) -> np.ndarray:
  """Returns whether images show a flag, bool [n, v]."""
  return shard[f'measure/{flag.observed}'] == flag.value
