"""Error under attacks that use the network's gradient, and the spectra of the changes they make.

Each image is shown clean and as changed by every attack at every radius ε (Yin et al. 2019, section
4.4, figure 7 a and b).
"""

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterator, Sequence

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from absl import logging

from robustness.attacks import Arguments, Attack, Flag, Logits, balls
from robustness.attacks.attack_study import AttackStudy, Shown, label_and_class
from robustness.attacks.auto_attack import AutoAttack, State
from robustness.core import settings
from robustness.core.errors import KEYS
from robustness.core.pixels import BFLOAT16_STEP
from robustness.core.registry import setting
from robustness.core.typing import Facts
from robustness.estimates.facets import ATTACK, EPSILON, Facet
from robustness.estimates.means import energy_fraction
from robustness.estimates.outcomes import Outcomes
from robustness.estimates.quantity import (
  CLEAN_ERROR,
  ERROR,
  Quantity,
  declare_amount,
  declare_error,
)
from robustness.estimates.table import select
from robustness.evaluation.measurements import summarise
from robustness.evaluation.outcomes import Evaluation, Recorded
from robustness.evaluation.records import RecordsReader, Shard
from robustness.evaluation.study import Figures, ImageShape
from robustness.evaluation.views import Arrays, Stages, Views, ViewTable, id_of, state_after_stages
from robustness.fourier import spectrum
from robustness.fourier.filters import high_pass
from robustness.present import charts, style
from robustness.present.maps import spectrum_panels
from robustness.present.notation import value_text
from robustness.results import Findings, Results, Table

ATTACK_ERROR = declare_error(
  'attack_error', 'top-1 error under attack', headline=True, reference=CLEAN_ERROR.name
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
CHANGE_NORM = declare_amount(
  'change_norm', 'ℓ2 norm of changes that leave an image wrong', statistic=np.sqrt
)
LARGEST_CHANGE = declare_amount('largest_change', 'largest change of a pixel')
_radial = functools.partial(declare_amount, statistic=np.positive)
"""Returns a quantity that is the mean of its values without a further statistic."""
RADIAL = _radial('radial_amplitude', 'mean |F| of changes that leave an image wrong')
CLEAN_RADIAL = _radial('clean_radial_amplitude', 'mean |F| of clean images')
FLAGGED = Quantity('flagged', 'share of images that raise a flag of AutoAttack')
STAGE = Facet('stage', 'attack, after those before it', place='after {}', words_of_many='attacks')

CLEAN = 0
"""Index of the clean view; the attacks follow, radius by radius."""
SAME_NAME = ('version', 'iterations', 'queries', 'steps', 'step_size', 'random_start')
EARLIER = {'losses': 'loss', **{key: key for key in SAME_NAME}}
"""Keys of `config.study` that earlier versions had for all attacks, with their names in the section
of an attack.
"""
FLAG_COLUMNS = 'classifier', 'epsilon', 'flag', 'images', 'of'
"""Columns of the table of AutoAttack's flags."""


@dataclasses.dataclass(frozen=True)
class AttackError(AttackStudy):
  """A study of classification error under adversarial attacks.

  Attributes:
    attacks: names of attacks: 'pgd', 'fgsm', 'auto_pgd', 'fab', 'fmn', 'ddn' (ℓ2), 'square',
      'auto_attack' or `FILE.py:NAME`. LABEL=NAME adds an attack under another label, so that it can
      run twice with different settings.
    attack: {label of an attack: its settings}, for instance {'pgd': {'steps': 10}}. It is the
      section `config.study.attack`.
    norm: 'linf', 'l2' or 'l1'. PGD and FGSM have no 'l1', and DDN has only 'l2'.
    epsilon: radius ε of the ball for pixels in [0, 1]; .03137 is 8/255.
    epsilons: further radii. Step sizes of attacks are scaled in proportion to the radius.
    restarts: number of random starts. An image counts as misclassified if any of them succeeds.
    bandwidth: frequencies in a square of this side around the Nyquist frequency count as high in
      spectra. 0 takes the published fraction of the image's side, 27/32.
    half_width: precision. An attack is run on images until the confidence interval of its error is
      at most ± this wide; 0 runs it on all images. See `Study`.
  """

  title = 'Error under attacks'
  described_facets = (STAGE,)
  # {former key of `config.study`: where its value is now, for messages}
  moved_keys = {
    key: f'attack.ATTACK.{new}, of each ATTACK that has it' for key, new in EARLIER.items()
  }
  papers = ('yin2019fourier', 'madry2018towards')

  half_width: float = 0.0
  epsilon: float = 8 / 255
  epsilons: tuple[float, ...] = ()
  restarts: int = setting(1, 'at least 1', lambda x: x >= 1)
  bandwidth: int = 0
  false_discovery_rate: float = 0.05

  def __post_init__(self) -> None:
    """Raises InputError for invalid settings of this study of adversarial attacks.

    Radii must be valid for the norm, and distinct as results print them. More than one restart
    needs an attack that it changes: one that draws at random and is no ensemble. An ensemble, such
    as AutoAttack, has `stages`, which are attacks with their own numbers of restarts.
    """
    super().__post_init__()
    for epsilon in self.epsilons:
      balls.check(self.section, self.norm, epsilon, 'epsilons')
    runs = self.runs  # {label: attack}
    has_attacks_to_restart = any(run.draws and not run.stages for run in runs.values())
    only_valid = f'1, as {" and ".join(runs)} draws nothing or has its own restarts'
    self.require(self.restarts == 1 or has_attacks_to_restart, 'restarts', only_valid)
    distinct = len({f'{epsilon:.4g}' for epsilon in self.radii}) == len(self.radii)
    self.require(distinct, 'epsilons', 'radii that are distinct in four digits')

  def lost_in_bfloat16(self, image_shape: ImageShape | None = None) -> str:
    """Returns an error message if attacks change pixels too little for bfloat16, else ''.

    Changes below the rounding step of bfloat16 would be lost, and the network would look robust.
    The mean change per pixel at the smallest radius is compared with this step.

    Args:
      image_shape: shape of the images, which matters for all norms but ℓ∞. If it is not yet known
        (None), these norms are not checked.
    """
    if self.norm != 'linf' and image_shape is None:
      return ''
    change_at_radius_1 = balls.mean_change(self.norm, 1.0, image_shape or ())
    smallest = self.radii[0]
    if smallest * change_at_radius_1 >= BFLOAT16_STEP:
      return ''
    return (
      f'give {KEYS.study.epsilon} and epsilons of at least '
      f'{BFLOAT16_STEP / change_at_radius_1:.6f} (2**-8 a value), not {smallest:g}'
    )

  @property
  def radii(self) -> tuple[float, ...]:
    """The radii of all balls (`epsilon` and `epsilons`), ascending."""
    return tuple(sorted((self.epsilon, *self.epsilons)))

  @classmethod
  def from_earlier(cls, study: Facts) -> Facts:
    """Converts the settings of an earlier version of the software to the current form.

    Earlier versions had a single value for all attacks, for example `steps=10`. It moves to each
    attack that has this setting, such as `attack.pgd.steps`. Each pair of an attack and an entry of
    the old list `losses` becomes an entry of `attacks`, such as `pgd_dlr=pgd`.

    Args:
      study: the values of `config.study` as the earlier version wrote them.
    """
    # {today's name: value} of the settings that were common to all attacks
    common = {new: study[old] for old, new in EARLIER.items() if old in study}
    if not common:
      return study
    all_losses = common.pop('loss', (Attack.loss,))  # the former `losses`, a list
    # The new settings: `attacks`, such as ['pgd_dlr=pgd'], and `attack`, such as
    # {'pgd_dlr': {'steps': 7, 'loss': 'dlr'}}.
    entries, sections = [], {}
    for entry in study['attacks']:
      name, attack = label_and_class(entry)
      section = {key: value for key, value in common.items() if key in cls.settings_of(attack)}
      has_fixed_loss = settings.parse(attack, section, cls.section).has_fixed_loss
      losses = (Attack.loss,) if has_fixed_loss else all_losses
      for loss in losses:
        label = name if len(losses) == 1 else f'{name}_{loss}'
        entries.append(entry if label == name else f'{label}={entry}')
        sections[label] = {**section, 'loss': loss}
    unchanged = {key: value for key, value in study.items() if key not in EARLIER}
    current = {**unchanged, 'attacks': entries, 'attack': sections}
    # Settings of attacks that the earlier version did not have get their defaults.
    return {**current, **cls.sections_of_parts(current)}

  @property
  def common_settings(self) -> Facts:
    """The norm and the radius `epsilon`."""
    return {'norm': self.norm, 'epsilon': self.epsilon}

  @property
  def _ensembles(self) -> dict[str, Attack]:
    """{label: attack} for attacks that run several attacks in turn, such as AutoAttack."""
    return {name: attack for name, attack in self.runs.items() if attack.stages}

  def view_table(self, image_shape: ImageShape) -> ViewTable:
    """Returns the names of the views: 'clean', then attacks such as 'PGD 8/255' by radius.

    A view is one way to perturb each image.
    """
    radii = [value_text(EPSILON, epsilon) for epsilon in self.radii]
    attacks = [value_text(ATTACK, label) for label in self.runs]
    attacked = (f'{attack} {radius}' for radius in radii for attack in attacks)
    return ViewTable.of(['clean', *attacked])

  def views(self, image_shape: ImageShape) -> Views:
    """Returns the views (ways to perturb each image): clean, then each attack at each radius.

    Radii ascend. The id of an attacked view is a hash of the attack's label and loss, the norm and
    the radius. Hence random starts do not depend on other attacks of the run. The hooks of `Views`
    show an attacked image (`_show`), run ensembles attack by attack (`stages`), and record Fourier
    spectra (`measure`, `total`): of the clean images, and of the changes by each attack.
    """
    views = [(0, -1, 0.0)]  # the clean view has the id 0, no attack, −1, and the radius 0
    for epsilon, (index, label) in itertools.product(self.radii, enumerate(self.runs)):
      words = f'{label} {self.runs[label].loss} {self.norm} {epsilon:.6g}'
      views.append((id_of(words) + 1, index, epsilon))  # an id is at least 1
    ids, indices, radii = zip(*views, strict=True)
    high_pass(*image_shape[:2], self.bandwidth)  # raises InputError if no filter has `bandwidth`
    return Views(
      self._show,
      ids=np.array(ids, np.int32),
      parameters={'attack': np.array(indices, np.int32), 'epsilon': np.array(radii, np.float32)},
      uses_classifier=True,
      together=True,
      stages=Stages(self._steps, _begin, self._advance) if self._ensembles else None,
      measure=self._measure,
      total=_total,
    )

  def _measure(self, row: Arrays, image: jax.Array, view: Arrays, logits: Logits) -> Arrays:
    """Summarises the Fourier spectrum F of an adversarial change, as recorded for each image.

    Args:
      row: the clean image, `row['image']` [H, W, C].
      image: the attacked image, [H, W, C].
      view: the radius, `view['epsilon']`. If it is 0, the spectrum is of `image` itself.
      logits: not used.

    Returns:
      A dictionary. 'energy' is Σ |F|² over all frequencies, 'high_energy' is Σ |F|² over high
      frequencies, and 'rings' is the mean |F| by frequency |f|. 'largest' is the largest change
      of a pixel value.
    """
    height, width, _ = image.shape
    measures = spectrum.measures(high_pass(height, width, self.bandwidth))  # called with |F|
    largest = jnp.abs(image - row['image']).max()
    return {**measures(_amplitudes(row, image, view)), 'largest': largest}

  def _show(self, keys: jax.Array, rows: Arrays, view: Arrays, logits: Logits) -> Shown:
    """Attacks a batch and returns the images [B, H, W, C], and observations {name: [B]}.

    Only ensembles of attacks such as AutoAttack are observed: `stage` is the number of the first
    attack that succeeded, `no_gradient` and `random` are warnings. The values are 0 or False for
    other attacks and clean images. A study without ensembles has no observations.

    Args:
      keys: random keys, [B].
      rows: the clean images, `rows['image']`, and labels.
      view: index of the attack (−1 for clean images), and the radius `epsilon`.
      logits: function from images to logits.
    """
    # The observations of the clean view and of single attacks. With ensembles they are not empty,
    # because all branches of the switch below must return arrays of the same names and shapes.
    no_observations: dict[str, jax.Array] = {}
    if self._ensembles:
      false = jnp.zeros(len(keys), bool)
      no_observations = {'stage': false.astype(jnp.int32), 'no_gradient': false, 'random': false}

    def run_attack(attack: Attack, scale: jax.Array) -> Shown:
      """Runs one attack on the batch; returns the images, and observations {name: [B]}.

      For a single attack the images are the worst of its restarts. An ensemble may have been run
      before, in steps (see `_steps`); `rows` then holds its result.

      Args:
        attack: the attack.
        scale: radius of the ball, as a multiple of the setting `epsilon`.
      """
      images = rows['image']
      if not attack.stages:  # a single attack
        worst = attack.worst(self.restarts, keys, logits, images, rows['label'], scale)
        return worst, no_observations
      arguments = Arguments(keys, logits, images, _labels(rows), scale)
      state = state_after_stages(rows, view)  # {} if the attack was not run before
      if isinstance(attack, AutoAttack) and state:
        return attack.finish(arguments, state)
      return attack.observed(*arguments)

    branches: list[Callable[..., Shown]] = [lambda scale: (rows['image'], no_observations)]
    branches += (functools.partial(run_attack, attack) for attack in self.runs.values())
    # the clean view has the attack −1, hence the branch 0
    return jax.lax.switch(view['attack'] + 1, branches, view['epsilon'] / self.epsilon)

  def _steps(self, view: Facts, classes: int) -> list[tuple[str, tuple[int, int], int]]:
    """Lists the steps of AutoAttack for a view (an attack at one radius).

    AutoAttack runs several attacks in turn, called stages. A step is one restart of a stage, or one
    target class. Steps are short, so that progress can be shown between them.

    Args:
      view: index of the attack and its radius. Other attacks and the clean view have no steps.
      classes: number of classes, which limits the number of target classes.

    Returns:
      Tuples of a description for progress, (index of the attack, index of the stage), and the
      number of the restart or target class.
    """
    index = int(view['attack'])  # −1 in the clean view
    if index < 0:
      return []
    label, attack = list(self.runs.items())[index]
    if not isinstance(attack, AutoAttack):
      return []
    radius = value_text(EPSILON, float(view['epsilon']))
    attack_and_radius = f'{value_text(ATTACK, label)} {radius}'
    steps_of_view = []
    for stage, (_, num_runs) in enumerate(attack.members(classes)):
      for run in range(num_runs):
        words = f'{attack_and_radius}, {attack.stages[stage]}, run {run + 1} of {num_runs}'
        steps_of_view.append((words, (index, stage), run))
    return steps_of_view

  def _advance(
    self,
    program: tuple[int, int],
    keys: jax.Array,
    rows: Arrays,
    view: Arrays,
    logits: Logits,
    state: State,
    run: jax.Array,
  ) -> State:
    """Runs one step of AutoAttack on a batch: a restart or a target class of one stage.

    Args:
      program: (index of the attack, index of the stage). A stage is an attack of the ensemble.
      keys: random keys, [B].
      rows: the batch, with `image` [B, H, W, C] and labels.
      view: the view (an attack at one radius), with the radius `epsilon`.
      logits: function from images to logits.
      state: state before the step, {name: [B, ...]}.
      run: index of the random start or target class.

    Returns:
      The state after the step.
    """
    index, stage = program
    attack, scale = list(self.runs.values())[index], view['epsilon'] / self.epsilon
    assert isinstance(attack, AutoAttack)
    arguments = Arguments(keys, logits, rows['image'], _labels(rows), scale)
    return attack.advance(stage, run, num_runs=1, arguments=arguments, state=state)

  @property
  def shown_as(self) -> dict[str, str]:
    """Describes the attacks for a report, such as 'PGD (40 steps) in the ℓ∞ ball of 8/255'.

    The text also has losses other than the default, and the number of random starts if above 1. If
    only some attacks have random starts, it names these.
    """
    attacks, restarted = [], []
    for label, attack in self.runs.items():
      name = value_text(ATTACK, label)
      loss = f'{attack.loss} loss' if attack.loss != Attack.loss else ''
      words = ', '.join(filter(None, (attack.words, loss)))
      attacks.append(f'{name} ({words})' if words else name)
      # an attack in stages, such as AutoAttack, has restarts of its stages instead
      if attack.draws and not attack.stages:
        restarted.append(name)
    restarts = ''
    if self.restarts > 1:
      names = f' of {" and ".join(restarted)}' if len(restarted) < len(attacks) else ''
      restarts = f'; the worst of {self.restarts} random starts{names}'
    radii = ', '.join(value_text(EPSILON, epsilon) for epsilon in self.radii)
    return {'attacks': f'{", ".join(attacks)} in the {self.ball} ball of {radii}{restarts}'}

  def differences(self, records: RecordsReader, image_shape: ImageShape) -> list[str]:
    """Returns deviations from published experiments, such as attacks weaker than AutoAttack."""
    differences = super().differences(records, image_shape)
    # '' for an attack that is not weaker than AutoAttack.
    shortcomings = [attack.shortcoming for attack in self.runs.values()]
    if all(shortcomings):
      differences.append(f'{" and ".join(shortcomings)}, not AutoAttack: a lower bound')
    return differences

  @property
  def quantities(self) -> tuple[Quantity, ...]:
    """The reported quantities: errors, and measures of adversarial changes and clean images.

    `attack_error` counts an image as wrong if any attack succeeds; `error` is per attack. If there
    is only one attack, they are equal, and `error` is not among the main results.
    """
    first, *later = self.runs
    attack = f'{self.ball} {value_text(ATTACK, first)}'
    if later:
      attack = f'the worst {self.ball} attack on each image'
    under_worst = dataclasses.replace(ATTACK_ERROR, words=f'top-1 error under {attack}')
    under_each = dataclasses.replace(ERROR, headline=bool(later))
    after_each_stage = (ERROR_AFTER,) if self._ensembles else ()
    of_changes = HIGH_FREQUENCY, CHANGE_NORM, LARGEST_CHANGE, RADIAL
    of_clean_images = CLEAN_HIGH_FREQUENCY, CLEAN_RADIAL
    return (under_worst, CLEAN_ERROR, under_each, *after_each_stage, *of_changes, *of_clean_images)

  def facets(self, image_shape: ImageShape) -> pd.DataFrame:
    """Returns a table with the columns `attack` and `epsilon`, with a row for each view.

    A view is an attack at one radius. Both columns are None for the clean view.
    """
    attacked = [(label, epsilon) for epsilon in self.radii for label in self.runs]
    return pd.DataFrame([(None, None), *attacked], columns=['attack', 'epsilon'])

  def estimates(self, recorded: Recorded) -> Iterator[pd.DataFrame]:
    """Yields tables of error on clean images, under each attack and under the worst attack.

    Errors are by radius. Tables of the size and spectrum of adversarial changes follow; see
    `_change_estimates`. With `half_width`, some attacks may have run on fewer images. The error
    under the worst attack is then over the images that all attacks have run on.

    Args:
      recorded: for each classifier, the predictions for N images in V views: the clean image, and
        the image after each attack at each radius.
    """
    views = recorded.views
    yield self.means(CLEAN_ERROR, recorded, where=views.attack.isna().to_numpy(), test=True)
    yield self.means(ERROR, recorded, ('attack', 'epsilon'), test=True)
    # After each member of an ensemble such as AutoAttack, with the members before it.
    for name, attack in self._ensembles.items():
      is_attack = (views.attack == name).to_numpy()
      for number, stage in enumerate(attack.stages, 1):
        statistic = functools.partial(_is_wrong_after, number)
        after = dataclasses.replace(ERROR_AFTER, statistic=statistic)
        facets = {'stage': stage}
        yield self.means(after, recorded, ('epsilon',), where=is_attack, facets=facets, test=True)
    under_worst = recorded.outcomes(ATTACK_ERROR)
    if len(self.runs) > 1:
      # An image is wrong at a radius if any of the attacks succeeds. `common` has the images that
      # were shown in all views.
      under_worst = under_worst.common.combined(('epsilon',), lambda wrong: wrong.any(1))
    worst = self.means(ATTACK_ERROR, under_worst, ('epsilon',), test=True)
    # 'AutoAttack of 10 steps' if its authors have more; '' for an ensemble as published.
    shortcomings = [attack.shortcoming for attack in self._ensembles.values()]
    if note := ' and '.join(filter(None, shortcomings)):
      # The note is on errors, not on differences between two classifiers.
      worst.loc[worst.versus == '', 'note'] = f"{note}, fewer than its authors': a lower bound"
    yield worst
    yield from self._change_estimates(recorded)

  def _change_estimates(self, recorded: Recorded) -> Iterator[pd.DataFrame]:
    """Yields the high-frequency share, the norm and the largest value of adversarial changes.

    Shares and norms are means over images that an attack changes and that are misclassified after
    it. The largest value is over all images. PGD and FGSM also change images that were
    misclassified before the attack; AutoAttack, FAB and Square do not. The share in clean images is
    added for comparison.
    """
    views, clusters, by = recorded.views, recorded.clusters, ('attack', 'epsilon')
    is_clean = views.attack.isna().to_numpy()
    energy = _values_of_wrong_changes(recorded, 'measure/energy')
    high_energy = _values_of_wrong_changes(recorded, 'measure/high_energy')
    # Numerator and denominator of the share of high frequency. In attacked views they are of the
    # changes, in the clean view of the images themselves.
    energies = {label: (high_energy[label], energy[label]) for label in energy}
    outcomes = Outcomes.from_fields(HIGH_FREQUENCY, energies, views, clusters=clusters)
    yield self.means(HIGH_FREQUENCY, outcomes, by, paired=False)
    yield self.means(CLEAN_HIGH_FREQUENCY, outcomes, where=is_clean, paired=False)
    norms = Outcomes.from_fields(CHANGE_NORM, energy, views, clusters=clusters)
    yield self.means(CHANGE_NORM, norms, by, paired=False)
    for evaluation in recorded.evaluations:
      largest = evaluation.records.table('measure/largest')  # [N, V]
      value = largest.max(0)[~is_clean].astype(float)  # over all images, in each attacked view
      yield self.arrays(LARGEST_CHANGE, evaluation.label, views[~is_clean], value, n=len(largest))

  def _flag_tables(self, recorded: Recorded) -> dict[str, Table]:
    """Returns {title: table} of the number of images with each warning of AutoAttack.

    A warning ("flag") means that the attack may have failed, for instance because of a zero
    gradient. If more images have it than tolerated, it is also logged.
    """
    rows: list[list[object]] = []
    for name, attack in self._ensembles.items():
      is_attack = (recorded.views.attack == name).to_numpy()
      for words, flag in attack.flags.items():
        # The statistic is whether an image raises this flag.
        flagged = dataclasses.replace(FLAGGED, statistic=functools.partial(_raises_flag, flag))
        outcomes = recorded.outcomes(flagged)
        for group in outcomes.groups(('epsilon',), is_attack):
          radius = value_text(EPSILON, group.facets['epsilon'])
          for label in outcomes.labels:
            sums = outcomes.sums(label, group)
            count = int(sums.total.sum())
            rows.append([label, radius, words, count, sums.n])
            if count > flag.tolerated * sums.n:
              logging.warning('%s, ε = %s: %d of %d images %s', label, radius, count, sums.n, words)
    return {'flags of AutoAttack': Table(FLAG_COLUMNS, rows)} if rows else {}

  def reduce(self, evaluations: Sequence[Evaluation], image_shape: ImageShape) -> Findings:
    """Returns errors under attack, and Fourier spectra of the adversarial changes δ.

    Args:
      evaluations: for each classifier, its records of N images in V views: the clean image, and
        the image after each attack at each radius.
      image_shape: height H, width W and channels of the images.

    Returns:
      Tables of estimates, and two arrays for each classifier. `<label>/spectrum` [E, A, H, W] is
      the mean |F(δ)| for E radii and A attacks, over misclassified images (NaN without any).
      `<label>/clean_spectrum` [H, W] is the mean |F| of clean images.
    """
    recorded = Recorded(evaluations, self.facets(image_shape))
    rings = _values_of_wrong_changes(recorded, 'measure/rings')  # [N, V, rings]
    # the mean |f| of each ring of frequencies, which is a value of the facet `radius`
    frequencies = spectrum.measures(high_pass(*image_shape[:2], self.bandwidth)).radii
    # Each ring of each view becomes a view, as estimates are made by view.
    views = recorded.views.merge(pd.DataFrame({'radius': frequencies}), how='cross')
    amplitudes = Outcomes.from_fields(RADIAL, rings, views, clusters=recorded.clusters)
    is_clean = views.attack.isna().to_numpy()
    estimates = [
      *self.estimates(recorded),
      self.means(RADIAL, amplitudes, ('attack', 'epsilon', 'radius'), paired=False),
      self.means(CLEAN_RADIAL, amplitudes, ('radius',), where=is_clean, paired=False),
    ]
    findings = Findings(tables=self._flag_tables(recorded), estimates=estimates)
    for evaluation in evaluations:
      # How many images are in the sum of each view, [V, 1, 1]: the images left wrong by the attack.
      count = evaluation.records.total('counted')[:, None, None]
      total = spectrum.full_map(evaluation.records.total('spectrum'), image_shape[1])
      # [V, H, W]; NaN without an image.
      mean = np.where(count > 0, total / np.maximum(count, 1), np.nan).astype(np.float32)
      # the clean view is first; the others are ordered by radius, then by attack
      attacked = mean[CLEAN + 1 :].reshape(len(self.radii), len(self.runs), *image_shape[:2])
      findings.arrays[f'{evaluation.label}/spectrum'] = attacked
      findings.arrays[f'{evaluation.label}/clean_spectrum'] = mean[CLEAN]
    return findings

  def figures(self, results: Results) -> Figures:
    """Returns the default figures, and two figures of the spectra of adversarial changes.

    'radial' shows amplitude against frequency |f|. 'spectra' shows the mean spectrum for each
    classifier and attack. Both are at the radius `epsilon`, over misclassified images. They are
    left out if there are none.
    """
    figures = charts.draw(results)
    # `...` selects any attack and any |f|.
    rows = select(results.table, RADIAL.name, attack=..., epsilon=self.epsilon, radius=...)
    if rows['value'].isna().all():  # no image is wrong
      return figures
    facets = ('attack', 'epsilon', 'radius')
    # '' is the figure of the values, besides figures of differences between classifiers.
    radial_figure, radial_caption = charts.draw_rows(rows, RADIAL, facets, results)['']
    for axes in radial_figure.axes:
      style.log_scale(axes)
    norms = select(results.table, CHANGE_NORM.name, attack=..., epsilon=self.epsilon)
    num_wrong = norms.set_index(['classifier', 'attack'])['n']  # images left wrong
    titles, maps = [], []
    for label in results.labels:
      # [attacks, H, W] at the radius `epsilon`.
      spectra = results.arrays[f'{label}/spectrum'][self.radii.index(self.epsilon)]
      for attack, spectrum_of_attack in zip(self.runs, spectra, strict=True):
        titles.append(f'{label}, {value_text(ATTACK, attack)} ({num_wrong[label, attack]})')
        maps.append(spectrum_of_attack)
    figure = spectrum_panels(titles, maps, decades=0, quantity='mean |F(δ)|')
    radius = value_text(EPSILON, self.epsilon)
    caption = (
      f'Mean |F(δ)| over the images that the attack leaves wrong at ε = {radius} in {self.ball}, '
      'zero frequency in the centre, one logarithmic scale; in brackets, of how many.'
    )
    return {**figures, 'radial': (radial_figure, radial_caption), 'spectra': (figure, caption)}


def _values_of_wrong_changes(recorded: Recorded, name: str) -> dict[str, np.ndarray]:
  """Returns {classifier: a recorded value, [N, V, ...]}, with NaN where an attack failed.

  An attack fails if it leaves the image unchanged or the prediction right. Clean images always have
  their value.

  Args:
    recorded: records of N images in V views (attacks at a radius, or clean).
    name: name of the recorded value, such as 'measure/energy'.
  """
  values = {}
  for evaluation in recorded.evaluations:
    records = evaluation.records
    # The rank of the true class is 0 for a right prediction; `largest` is the largest change.
    is_included = (records.table('rank') > 0) & (records.table('measure/largest') > 0)
    is_included[:, CLEAN] = True
    field = records.table(name).astype(float)
    # Transposed, because `is_included` [N, V] lacks the trailing axes of `field` [N, V, ...].
    values[evaluation.label] = np.where(is_included.T, field.T, np.nan).T
  return values


def _is_wrong_after(number: int, shard: Shard) -> np.ndarray:
  """Returns whether images are wrong after the first attacks of AutoAttack, bool [n, v].

  Args:
    number: how many of AutoAttack's attacks count.
    shard: records of n images in v views. The recorded stage is the number (from 1) of the attack
      that succeeded. It is 0 if the clean image is wrong, and larger than the number of attacks if
      none succeeded.
  """
  return shard['measure/stage'] <= number


def _raises_flag(flag: Flag, shard: Shard) -> np.ndarray:
  """Returns whether images have a given warning of AutoAttack, bool [n, v].

  Args:
    flag: the warning, for instance of a zero gradient.
    shard: records of n images in v views.
  """
  return shard[f'measure/{flag.observed}'] == flag.value


def _labels(rows: Arrays) -> jax.Array:
  """Returns labels, int32 [B], with −1 for padding, which attacks skip."""
  return jnp.where(rows['mask'], rows['label'], -1)


def _amplitudes(row: Arrays, image: jax.Array, view: Arrays) -> jax.Array:
  """Returns the Fourier amplitudes of an adversarial change, [H, W // 2 + 1, C].

  Args:
    row: the clean image, `row['image']` [H, W, C].
    image: the attacked image, [H, W, C].
    view: the radius, `view['epsilon']`. If it is 0, the amplitudes are of `image` itself.
  """
  is_clean_view = view['epsilon'] == 0
  return spectrum.half_magnitude(image - jnp.where(is_clean_view, 0, row['image']))


def _total(row: Arrays, image: jax.Array, view: Arrays, logits: Logits) -> Arrays:
  """Returns what an image adds to the sum of spectra of successful adversarial changes.

  An image counts if the attack changed it and it is misclassified. In the clean view the
  spectra are of the images themselves, and all images count.

  Args:
    row: the clean image, `row['image']` [H, W, C], and its `label`.
    image: the attacked image, [H, W, C].
    view: the radius, `view['epsilon']`, which is 0 in the clean view.
    logits: function from images [B, H, W, C] to logits.

  Returns:
    'spectrum', the mean amplitude over channels, [H, W // 2 + 1], or 0; and 'counted', 1 or 0.
  """
  rank_of_true_class = summarise(logits(image[None]), row['label'][None])['rank'][0]
  is_changed, is_wrong = (image != row['image']).any(), rank_of_true_class > 0
  is_clean_view = view['epsilon'] == 0
  counted = (is_wrong & is_changed) | is_clean_view
  mean = _amplitudes(row, image, view).mean(-1)
  return {'spectrum': jnp.where(counted, mean, 0), 'counted': counted.astype(jnp.float32)}


def _begin(rows: Arrays, logits: Logits) -> State:
  """Returns the state of AutoAttack on a batch before its first step, {name: [B, ...]}."""
  return AutoAttack.begin(logits, rows['image'], _labels(rows))
