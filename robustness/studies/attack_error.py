"""Error under attacks that use the network's gradient, and the spectra of the changes they make.

Each image is shown clean and as changed by every attack at every radius ε (Yin et al. 2019, section
4.4, figure 7 a and b).
"""

import abc
import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from absl import logging

from robustness.attacks import ATTACKS, Arguments, Attack, Flag, Logits, balls
from robustness.attacks.auto_attack import AutoAttack, State
from robustness.core import settings
from robustness.core.errors import KEYS, renaming_section
from robustness.core.pixels import BFLOAT16_STEP
from robustness.core.registry import Part, have_distinct_names, part_name, setting
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
from robustness.evaluation.study import Figures, ImageShape, Recipes, Study, require_single_labels
from robustness.evaluation.views import Arrays, Stages, Views, ViewTable, id_of, state_after_stages
from robustness.fourier import spectrum
from robustness.fourier.filters import high_pass
from robustness.present import charts, style
from robustness.present.maps import spectrum_panels
from robustness.present.notation import value_text
from robustness.results import Findings, Results, Table

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
"""Returns a quantity that is a number of at least 0, given its name and words."""
CHANGE_NORM = _amount(
  'change_norm', 'ℓ2 norm of changes that leave an image wrong', statistic=np.sqrt
)
LARGEST_CHANGE = _amount('largest_change', 'largest change of a pixel')
_radial = functools.partial(_amount, statistic=np.positive)
"""Returns a quantity that is the mean of its values without a further statistic."""
RADIAL = _radial('radial_amplitude', 'mean |F| of changes that leave an image wrong')
CLEAN_RADIAL = _radial('clean_radial_amplitude', 'mean |F| of clean images')
FLAGGED = Quantity('flagged', 'share of images that raise a flag of AutoAttack')
STAGE = Facet('stage', 'attack, after those before it', place='after {}', words_of_many='attacks')

Shown = tuple[jax.Array, dict[str, jax.Array]]
"""The images of a batch in a view, [B, H, W, C], and observations {name: [B]}."""
CLEAN = 0
"""Index of the clean view; the attacks follow, radius by radius."""
EARLIER_KEYS = ('version', 'iterations', 'queries', 'steps', 'step_size', 'random_start')
EARLIER = {'losses': 'loss', **{key: key for key in EARLIER_KEYS}}
"""Keys of `config.study` that earlier versions had for all attacks, with their names in the section
of an attack.
"""
FLAG_COLUMNS = 'classifier', 'epsilon', 'flag', 'images', 'of'
"""Columns of the table of AutoAttack's flags."""


@dataclasses.dataclass(frozen=True)
class AttackStudy(Study):
  """Base class of studies that run attacks; attributes are their settings.

  Attributes:
    attacks: names of attacks; LABEL=NAME repeats an attack with other settings.
    attack: the settings of each attack in a section of its name or label, such as
      `config.study.attack.pgd.steps`.
    norm: 'linf', 'l2' or 'l1'.
  """

  # Settings of attacks that a user cannot set, because the study decides them.
  set_by_study = ('norm', 'epsilon', 'statistics')

  attacks: tuple[str, ...] = setting(('pgd',), 'not empty', bool)
  attack: Facts = dataclasses.field(default_factory=dict, hash=False)
  norm: str = 'linf'

  def __post_init__(self) -> None:
    """Raises InputError for a setting that is not valid, of the study or of an attack."""
    super().__post_init__()
    classes = [_label_and_class(entry)[1] for entry in self.attacks]
    valid = 'without two files that define the same NAME'
    self.require(have_distinct_names(classes), 'attacks', valid)
    # The norms in which all attacks can be run.
    norms = [norm for norm in balls.NORMS if all(norm in attack.norms for attack in classes)]
    radius = self.common_settings.get('epsilon', Attack.epsilon)
    balls.check(self.section, self.norm, radius, norms=norms)
    self.require(len(self.runs) == len(self.attacks), 'attacks', 'distinct')
    # Sections of attacks that are not run: creating the attack raises InputError for wrong keys.
    for label in self.attack.keys() - self.runs.keys():
      self._attack(label)

  @property
  @abc.abstractmethod
  def common_settings(self) -> Facts:
    """The settings that the study passes to each of its attacks, such as the norm."""

  @property
  def ball(self) -> str:
    """The norm as papers write it: 'ℓ∞', 'ℓ2' or 'ℓ1'."""
    return {'linf': 'ℓ∞', 'l2': 'ℓ2', 'l1': 'ℓ1'}[self.norm]

  @classmethod
  def chosen_parts(cls, study: Facts) -> dict[str, dict[str, type[Part]]]:
    """Returns {'attack': {label: class of the attack}} for the attacks that `study` lists.

    Their settings are in the sections `config.study.attack.LABEL`.
    """
    return {'attack': dict(map(_label_and_class, study['attacks']))}

  @property
  def references(self) -> tuple[str, ...]:
    """The names of the attacks, such as 'pgd' for the entry 'strong=pgd'; a user's attack is
    `FILE.py:NAME`.
    """
    return tuple(entry.rpartition('=')[2] for entry in self.attacks)

  @property
  def runs(self) -> dict[str, Attack]:
    """The attacks by label, each with the common settings."""
    return dict(map(self._attack, self.attacks))

  def _attack(self, entry: str) -> tuple[str, Attack]:
    """Returns the label and the attack for an entry of `attacks`, LABEL=NAME or NAME.

    The attack gets the settings of `config.study.attack.LABEL` and the settings that are common to
    all attacks. InputError is raised if any of these is not valid.
    """
    settings.check_sections(self.attack, self.attack.keys(), f'{self.section}.attack')
    label, attack = _label_and_class(entry)
    settings.check_name(f'{self.section}.attacks', label)
    key = f'{self.section}.attack.{label}'
    section = self.attack.get(label, {})
    settings.refuse_unknown(section, self.settings_of(attack), key)
    with renaming_section(f'{attack.section}.{attack.name}', key):
      return label, settings.parse(attack, {**section, **self.common_settings}, key)

  def check(self, rows: Rows, recipes: Recipes) -> None:
    """Raises InputError for several labels per row: an attack increases the loss of one label."""
    require_single_labels(rows, 'an attack')
    super().check(rows, recipes)


@dataclasses.dataclass(frozen=True)
class AttackError(AttackStudy):
  """A study of error under attacks; attributes are its settings.

  With `half_width` an attack is run on images only until its interval is narrow enough, see
  `Study`.

  Attributes:
    attacks: names of attacks: 'pgd', 'fgsm', 'auto_pgd', 'fab', 'fmn', 'ddn' (ℓ2), 'square',
      'auto_attack' or `FILE.py:NAME`; LABEL=NAME repeats an attack with other settings.
    attack: the settings of each attack in a section of its name or label, such as
      `config.study.attack.pgd.steps`.
    norm: 'linf', 'l2' or 'l1'; PGD and FGSM have no 'l1', and DDN has 'l2' only.
    epsilon: ε, radius of the ball for pixels in [0, 1]; .03137 is 8/255.
    epsilons: further radii; step sizes of attacks are scaled in proportion to the radius.
    restarts: number of runs from random starts; an image counts as wrong if any run succeeds.
    bandwidth: side B of the square of frequencies, centred on the Nyquist frequency, that counts as
      high in spectra; 0 takes the published share of the image's side, 27 of 32.
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
    """Raises InputError for a radius, number of restarts or other setting that is not valid."""
    super().__post_init__()
    for epsilon in self.epsilons:
      balls.check(self.section, self.norm, epsilon, 'epsilons')
    runs = self.runs
    # An attack can be restarted if it draws at random, and is no ensemble, which has `stages` with
    # restarts of their own.
    has_attacks_to_restart = any(run.draws and not run.stages for run in runs.values())
    only_valid = f'1, as {" and ".join(runs)} draws nothing or has its own restarts'
    self.require(self.restarts == 1 or has_attacks_to_restart, 'restarts', only_valid)
    distinct = len({f'{epsilon:.4g}' for epsilon in self.radii}) == len(self.radii)
    self.require(distinct, 'epsilons', 'radii that are distinct in four digits')

  def lost_in_bfloat16(self, image_shape: ImageShape | None = None) -> str:
    """Returns the error message for bfloat16, which rounds small changes of pixels away.

    The network would then look robust. The message is '' if the mean change of a pixel at the
    smallest radius is at least one step of bfloat16. It is also '' if this change depends on the
    shape of the images and the shape is not known yet (None); for ℓ∞ it does not.
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
    """The radii ε of all balls, `epsilon` and `epsilons`, ascending."""
    return tuple(sorted((self.epsilon, *self.epsilons)))

  @classmethod
  def from_earlier(cls, study: Facts) -> Facts:
    """Returns settings that an earlier version wrote, with their keys in today's places.

    Earlier versions had one value of a setting for all attacks, for example of `steps`. The value
    moves to the section of each attack that has the setting, such as `attack.pgd.steps`. Each
    attack was run with every loss of the list `losses`, unless its loss is fixed: each such run
    becomes an entry of `attacks`, such as `pgd_dlr=pgd`.
    """
    # {today's name: value} of the keys in `study` that have moved
    moved = {new: study[key] for key, new in EARLIER.items() if key in study}
    if not moved:
      return study
    all_losses = moved.pop('loss', (Attack.loss,))  # the former `losses`, a list
    # The new settings: `attacks`, such as ['pgd_dlr=pgd'], and `attack`, such as
    # {'pgd_dlr': {'steps': 7, 'loss': 'dlr'}}.
    entries, sections = [], {}
    for entry in study['attacks']:
      name, attack = _label_and_class(entry)
      section = {f.name: moved[f.name] for f in dataclasses.fields(attack) if f.name in moved}
      has_fixed_loss = settings.parse(attack, section, cls.section).has_fixed_loss
      losses = (Attack.loss,) if has_fixed_loss else all_losses
      for loss in losses:
        label = name if len(losses) == 1 else f'{name}_{loss}'
        entries.append(entry if label == name else f'{label}={entry}')
        sections[label] = {**section, 'loss': loss}
    unchanged = {key: value for key, value in study.items() if key not in EARLIER}
    current = {**unchanged, 'attacks': entries, 'attack': sections}
    return {**current, **cls.sections_of_parts(current)}

  @property
  def common_settings(self) -> Facts:
    """The norm and the radius `epsilon`."""
    return {'norm': self.norm, 'epsilon': self.epsilon}

  @property
  def _ensembles(self) -> dict[str, Attack]:
    """The attacks, by label, that run other attacks one after another, such as AutoAttack."""
    return {name: attack for name, attack in self.runs.items() if attack.stages}

  def view_table(self, image_shape: ImageShape) -> ViewTable:
    """Returns the names of the views: 'clean' and, for example, 'PGD 8/255', radius by radius."""
    radii = [value_text(EPSILON, epsilon) for epsilon in self.radii]
    attacks = [value_text(ATTACK, label) for label in self.runs]
    attacked = (f'{attack} {radius}' for radius in radii for attack in attacks)
    return ViewTable.of(['clean', *attacked])

  def views(self, image_shape: ImageShape) -> Views:
    """Returns the clean view (id 0), then a view for every attack at every ε, ascending.

    The id of a view is a digest of label, loss, norm and ε, so that random starts do not depend on
    the other attacks of the run. Spectra are recorded too: in the clean view of the image, in every
    other view of what the attack changed.
    """
    ids, indices, radii = [0], [-1], [0.0]  # the clean view has no attack, −1, and the radius 0
    for epsilon in self.radii:
      for index, (label, attack) in enumerate(self.runs.items()):
        words = f'{label} {attack.loss} {self.norm} {epsilon:.6g}'
        ids.append(id_of(words) + 1)  # at least 1, because the clean view has id 0
        indices.append(index)
        radii.append(epsilon)
    measure, total = self._spectral_functions(image_shape)
    return Views(
      self._show,
      ids=np.array(ids, np.int32),
      parameters={'attack': np.array(indices, np.int32), 'epsilon': np.array(radii, np.float32)},
      uses_classifier=True,
      together=True,
      stages=self._stages if self._ensembles else None,
      measure=measure,
      total=total,
    )

  def _spectral_functions(
    self, image_shape: ImageShape
  ) -> tuple[Callable[..., Arrays], Callable[..., Arrays]]:
    """Returns the functions `measure` and `total` of the views, which record spectra of changes.

    What `measure` returns is recorded for each image; what `total` returns is summed over images.
    """
    measures = spectrum.measures(high_pass(*image_shape[:2], self.bandwidth))

    def amplitudes(row: Arrays, image: jax.Array, view: Arrays) -> jax.Array:
      """Returns the Fourier amplitudes |F|, [H, W // 2 + 1, C], of what an attack changed.

      The change is `image` [H, W, C] minus the row's clean image. In the clean view, amplitudes are
      of `image` itself.
      """
      is_clean_view = view['epsilon'] == 0
      return spectrum.half_magnitude(image - jnp.where(is_clean_view, 0, row['image']))

    def measure(row: Arrays, image: jax.Array, view: Arrays, _: Logits) -> Arrays:
      """Returns what is recorded of each image in a view, {name: value}, from its `amplitudes` |F|.

      'energy' is Σ |F|² over all frequencies, 'high_energy' is Σ |F|² over high frequencies, and
      'rings' is the mean |F| by |f|. 'largest' is the largest change of a pixel value.
      """
      largest = jnp.abs(image - row['image']).max()
      return {**measures(amplitudes(row, image, view)), 'largest': largest}

    def total(row: Arrays, image: jax.Array, view: Arrays, logits: Logits) -> Arrays:
      """Returns what the evaluator sums over images, {'spectrum': |F|, 'counted': 0 or 1}.

      In the clean view all images are counted; in others, those that the attack changed and the
      classifier has wrong. |F| is [H, W // 2 + 1], averaged over channels; 0 if not counted.
      """
      rank_of_true_class = summarise(logits(image[None]), row['label'][None])['rank'][0]
      is_changed, is_wrong = (image != row['image']).any(), rank_of_true_class > 0
      is_clean_view = view['epsilon'] == 0
      counted = (is_wrong & is_changed) | is_clean_view
      mean = amplitudes(row, image, view).mean(-1)
      return {'spectrum': jnp.where(counted, mean, 0), 'counted': counted.astype(jnp.float32)}

    return measure, total

  def _show(self, keys: jax.Array, rows: Arrays, view: Arrays, logits: Logits) -> Shown:
    """Returns the images [B, H, W, C] of a batch in a view, and observations {name: [B]}.

    Observations are of ensembles such as AutoAttack: `stage`, the number of the attack that
    succeeded first, and the warnings `no_gradient` and `random`. Images in other views have 0 or
    False. A study without ensembles has no observations.
    """
    # Observations of the clean view and of attacks that are no ensembles. All branches of the
    # switch below must return arrays of the same names and shapes.
    false = jnp.zeros(len(keys), bool)
    not_observed = {'stage': false.astype(jnp.int32), 'no_gradient': false, 'random': false}
    if not self._ensembles:
      not_observed = {}

    def attacked(attack: Attack, scale: jax.Array) -> Shown:
      """Returns the images as an attack changes them, and observations {name: [B]}.

      The radius of the ball is `scale` times the setting `epsilon`. The images of a single attack
      are the worst of its restarts. The evaluator may have run an ensemble already, stage by stage
      (see `_stages`); columns of `rows` then have the state after all stages.
      """
      images = rows['image']
      if not attack.stages:  # a single attack
        worst = attack.worst(self.restarts, keys, logits, images, rows['label'], scale)
        return worst, not_observed
      arguments = Arguments(keys, logits, images, _labels(rows), scale)
      if isinstance(attack, AutoAttack) and (state := state_after_stages(rows, view)):
        return attack.finish(arguments, state)
      return attack.observed(*arguments)

    # Branch 0 is the clean view, in which `attack` is −1; branch 1 + k is attack k.
    branches: list[Callable[..., Shown]] = [lambda _: (rows['image'], not_observed)]
    branches += (functools.partial(attacked, attack) for attack in self.runs.values())
    return jax.lax.switch(view['attack'] + 1, branches, view['epsilon'] / self.epsilon)

  @property
  def _stages(self) -> Stages:
    """The functions with which the evaluator runs AutoAttack step by step, to show progress.

    AutoAttack runs several attacks one after another, its stages. A stage has several runs, one for
    each restart or target class. A step is one run. Each stage of an attack is compiled once, as
    the program (index of the attack, index of the stage).
    """
    labels, attacks = list(self.runs), list(self.runs.values())

    def steps(view: Facts, classes: int) -> list[tuple[str, tuple[int, int], int]]:
      """Returns the steps of a view, (words for the user, program, number of the run).

      Only views of AutoAttack have steps. `classes` is the number of classes, which limits the
      number of target classes.
      """
      index = int(view['attack'])  # −1 in the clean view
      attack = attacks[index] if index >= 0 else None
      if not isinstance(attack, AutoAttack):
        return []
      name = f'{value_text(ATTACK, labels[index])} {value_text(EPSILON, float(view["epsilon"]))}'
      steps_of_view = []
      for stage, (_, num_runs) in enumerate(attack.members(classes)):
        for run in range(num_runs):
          words = f'{name}, {attack.stages[stage]}, run {run + 1} of {num_runs}'
          steps_of_view.append((words, (index, stage), run))
      return steps_of_view

    def begin(rows: Arrays, logits: Logits) -> State:
      """Returns the state of a batch before the first step of a view, {name: [B, ...]}."""
      return AutoAttack.begin(logits, rows['image'], _labels(rows))

    def advance(
      program: tuple[int, int],
      keys: jax.Array,
      rows: Arrays,
      view: Arrays,
      logits: Logits,
      state: State,
      run: jax.Array,
    ) -> State:
      """Returns the state of a batch of B rows after one step, which is a run of a stage.

      Args:
        program: (index of the attack, index of the stage, an attack of the ensemble).
        keys: random keys, [B].
        rows: the rows, with `image` [B, H, W, C].
        view: the view, with the radius `epsilon`.
        logits: function from images to logits.
        state: the state before the step.
        run: number of the run in its stage: of the random start or target class.
      """
      index, stage = program
      attack, scale = attacks[index], view['epsilon'] / self.epsilon
      assert isinstance(attack, AutoAttack)
      arguments = Arguments(keys, logits, rows['image'], _labels(rows), scale)
      return attack.advance(stage, first=run, count=1, arguments=arguments, state=state)

    return Stages(steps, begin, advance)

  @property
  def shown_as(self) -> dict[str, str]:
    """The attacks in words, for example 'PGD (40 steps) in the ℓ∞ ball of 8/255'.

    Losses other than the default are stated too, and the number of random starts if there are
    several. If some attacks have no random starts, those that have them are named: 'the worst of 5
    random starts of PGD'. It is a line of the report's table `which numbers these are`.
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
    """Returns why the errors are not comparable with published ones, as a list of phrases.

    One reason is that all attacks of the run are weaker than AutoAttack.
    """
    differences = super().differences(records, image_shape)
    # '' for an attack that is not weaker than AutoAttack.
    shortcomings = [attack.shortcoming for attack in self.runs.values()]
    if all(shortcomings):
      differences.append(f'{" and ".join(shortcomings)}, not AutoAttack: a lower bound')
    return differences

  @property
  def quantities(self) -> tuple[Quantity, ...]:
    """The errors, measures of the changes that attacks make, and the same of clean images.

    `attack_error` is the error under the worst attack on each image, and `error` the error under
    each attack separately. If there is only one attack, both are equal: the words of `attack_error`
    then name the attack, and reports do not begin with `error`.
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
    """Returns a table of each view's attack and radius `epsilon`; both None for the clean view."""
    clean = (None, None)
    attacked = [(label, epsilon) for epsilon in self.radii for label in self.runs]
    return pd.DataFrame([clean, *attacked], columns=['attack', 'epsilon'])

  def estimates(self, recorded: Recorded) -> Iterator[pd.DataFrame]:
    """Yields errors on clean images, under each attack and under the worst attack at each radius.

    Estimates of the changes that attacks make follow, see `_change_estimates`. With `half_width`,
    the error under the worst attack and all measures of changes are of the images that were shown
    in all views.
    """
    views = recorded.views
    is_clean = views.attack.isna().to_numpy()
    yield self.means(CLEAN_ERROR, recorded, where=is_clean, test=True)
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
    """Yields high-frequency share of energy, norm and largest value of the changes by attacks.

    Shares and norms are means over the images that an attack changes and leaves wrong; the largest
    value is over all images. PGD and FGSM also change images that were wrong before the attack;
    AutoAttack, FAB and Square do not. The share in clean images is yielded for comparison.
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
    """Returns {title: table of how many images raise each flag of AutoAttack}.

    A flag is a sign that the attack may have failed, such as a zero gradient. If more images raise
    a flag than its limit, a warning is logged.
    """
    rows: list[list[object]] = []
    for name, attack in self._ensembles.items():
      is_attack = (recorded.views.attack == name).to_numpy()
      for words, flag in attack.flags.items():
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
    """Returns the estimates with amplitudes by frequency |f|, and mean spectra as arrays.

    Of each classifier there are two arrays: `<label>/spectrum` [E, A, H, W], the mean |F(δ)| of the
    changes δ at E radii by A attacks, over the images that the attack leaves wrong (NaN if there
    are none); and `<label>/clean_spectrum` [H, W], the mean |F| of the clean images.
    """
    recorded = Recorded(evaluations, self.facets(image_shape))
    # the mean |f| of each ring of frequencies, which is a value of the facet `radius`
    frequencies = spectrum.measures(high_pass(*image_shape[:2], self.bandwidth)).radii
    views = recorded.views.merge(pd.DataFrame({'radius': frequencies}), how='cross')
    rings = _values_of_wrong_changes(recorded, 'measure/rings')
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
      of_attacks = mean[CLEAN + 1 :]
      attacked = of_attacks.reshape(len(self.radii), len(self.runs), *image_shape[:2])
      findings.arrays[f'{evaluation.label}/spectrum'] = attacked
      findings.arrays[f'{evaluation.label}/clean_spectrum'] = mean[CLEAN]
    return findings

  def figures(self, results: Results) -> Figures:
    """Returns the default figures, and two figures of the changes that attacks make.

    'radial' has the amplitudes by |f|, and 'spectra' the mean spectrum |F(δ)| of the changes δ, for
    each classifier and attack. Both are at the radius `epsilon`, over images that are wrong under
    the attack, and are left out if no image is.
    """
    figures = charts.draw(results)
    # `...` selects any attack and any |f|.
    rows = select(results.table, RADIAL.name, attack=..., epsilon=self.epsilon, radius=...)
    if rows['value'].isna().all():  # no image is wrong
      return figures
    facets = ('attack', 'epsilon', 'radius')
    radial = charts.draw_rows(rows, RADIAL, facets, results)['']  # '' for values
    for axes in radial[0].axes:
      style.log_scale(axes)
    norms = select(results.table, CHANGE_NORM.name, attack=..., epsilon=self.epsilon)
    num_images = norms.set_index(['classifier', 'attack'])['n']  # how many are wrong
    titles, maps = [], []
    for label in results.labels:
      # [attacks, H, W] at the radius `epsilon`.
      spectra = results.arrays[f'{label}/spectrum'][self.radii.index(self.epsilon)]
      for attack, spectrum_of_attack in zip(self.runs, spectra, strict=True):
        titles.append(f'{label}, {value_text(ATTACK, attack)} ({num_images[label, attack]})')
        maps.append(spectrum_of_attack)
    figure = spectrum_panels(titles, maps, decades=0, quantity='mean |F(δ)|')
    radius = value_text(EPSILON, self.epsilon)
    caption = (
      f'Mean |F(δ)| over the images that the attack leaves wrong at ε = {radius} in {self.ball}, '
      'zero frequency in the centre, one logarithmic scale; in brackets, of how many.'
    )
    return {**figures, 'radial': radial, 'spectra': (figure, caption)}


def _label_and_class(entry: str) -> tuple[str, type[Attack]]:
  """Returns the label and the class for an entry of `attacks`, LABEL=NAME or NAME.

  The label of a plain NAME is this name; of `FILE.py:NAME` it is the NAME.
  """
  label, _, name = entry.rpartition('=')
  return label or part_name(name), ATTACKS.find(name, f'{AttackError.section}.attacks')


def _values_of_wrong_changes(recorded: Recorded, name: str) -> dict[str, np.ndarray]:
  """Returns {classifier: a recorded field, [N, V, ...]}, with NaN for attacks without success.

  An attack has no success if it did not change the image, or the prediction is still right. The
  clean view has the values of all images. `name` is the name of the field.
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
  """Returns whether an image is wrong after the first `number` attacks of AutoAttack, bool [n, v].

  `shard` has n images in v views. The recorded stage is the number of the first attack that
  succeeded, from 1. It is 0 if the image is wrong without an attack, and above the number of
  attacks if none succeeded.
  """
  return shard['measure/stage'] <= number


def _raises_flag(flag: Flag, shard: Shard) -> np.ndarray:
  """Returns whether n images in v views of a shard raise a warning of AutoAttack, bool [n, v]."""
  return shard[f'measure/{flag.observed}'] == flag.value


def _labels(rows: Arrays) -> jax.Array:
  """Returns the labels of rows, int32 [B]; -1 for padding, so that no attack spends time on it."""
  return jnp.where(rows['mask'], rows['label'], -1)
