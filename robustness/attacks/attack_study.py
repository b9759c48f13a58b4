"""Base class of studies that run attacks, with the settings of the attacks."""

import abc
import dataclasses

import jax

from robustness.attacks import ATTACKS, Attack, balls
from robustness.core import settings
from robustness.core.errors import renaming_section
from robustness.core.registry import Part, have_distinct_names, setting
from robustness.core.rows import Rows
from robustness.core.typing import Facts
from robustness.core.user_code import part_name
from robustness.evaluation.study import Recipes, Study, require_single_labels

Shown = tuple[jax.Array, dict[str, jax.Array]]
"""The images of a batch in a view, [B, H, W, C], and observations {name: [B]}."""


@dataclasses.dataclass(frozen=True)
class AttackStudy(Study):
  """Base class of studies that run attacks.

  Attributes:
    attacks: names of attacks, such as 'pgd'. LABEL=NAME adds an attack under another label, so that
      it can run twice with different settings.
    attack: {label of an attack: its settings}, for instance {'pgd': {'steps': 10}}. It is the
      section `config.study.attack`.
    norm: 'linf', 'l2' or 'l1'.
  """

  # Settings of attacks that a user cannot set, because the study decides them.
  set_by_study = ('norm', 'epsilon', 'statistics')

  attacks: tuple[str, ...] = setting(('pgd',), 'not empty', bool)
  attack: Facts = dataclasses.field(default_factory=dict, hash=False)
  norm: str = 'linf'

  def __post_init__(self) -> None:
    """Raises InputError for an invalid setting of the study or of an attack."""
    super().__post_init__()
    classes = [attack_class for _, attack_class in map(label_and_class, self.attacks)]
    valid = 'without two files that define the same NAME'
    self.require(have_distinct_names(classes), 'attacks', valid)
    # The norms in which all attacks can be run.
    norms = [norm for norm in balls.NORMS if all(norm in attack.norms for attack in classes)]
    # A study of least distances has no radius, and the check takes any valid one in its place.
    radius = self.common_settings.get('epsilon', Attack.epsilon)
    balls.check(self.section, self.norm, radius, norms=norms)
    # `runs` has equal labels once only.
    self.require(len(self.runs) == len(self.attacks), 'attacks', 'distinct')
    for label in self.attack.keys() - self.runs.keys():
      self._attack(label)  # not run, but created: this raises InputError for a wrong key

  @property
  @abc.abstractmethod
  def common_settings(self) -> Facts:
    """Settings that all attacks of the study share, such as {'norm': 'linf'}."""

  @property
  def ball(self) -> str:
    """The norm in the notation of papers: 'ℓ∞', 'ℓ2' or 'ℓ1'."""
    return {'linf': 'ℓ∞', 'l2': 'ℓ2', 'l1': 'ℓ1'}[self.norm]

  @classmethod
  def chosen_parts(cls, study: Facts) -> dict[str, dict[str, type[Part]]]:
    """Returns {'attack': {label: class of the attack}} for the attacks that a config selects.

    Args:
      study: the values of `config.study`, such as `attacks`. Defaults may be left out.
    """
    return {'attack': dict(map(label_and_class, study.get('attacks', cls.attacks)))}

  @property
  def references(self) -> tuple[str, ...]:
    """Names of the attacks without labels, such as 'pgd' for the entry 'strong=pgd'.

    A user's attack has the form `FILE.py:NAME`.
    """
    return tuple(entry.rpartition('=')[2] for entry in self.attacks)

  @property
  def runs(self) -> dict[str, Attack]:
    """{label: attack} for all attacks, with their settings and those that they share."""
    return dict(map(self._attack, self.attacks))

  def _attack(self, entry: str) -> tuple[str, Attack]:
    """Creates an attack from an entry of `attacks`, such as 'pgd' or 'strong=pgd'.

    Its settings are in `config.study.attack.LABEL`, besides the settings that all attacks share.

    Returns:
      The label and the attack.

    Raises:
      InputError: A setting is not valid.
    """
    settings.check_sections(self.attack, self.attack.keys(), f'{self.section}.attack')
    label, attack = label_and_class(entry)
    settings.check_name(f'{self.section}.attacks', label)
    key = f'{self.section}.attack.{label}'
    section = self.attack.get(label, {})
    settings.refuse_unknown(section, self.settings_of(attack), key)
    # An error names the key in the study, not the section that attacks have elsewhere.
    with renaming_section(f'{attack.section}.{attack.name}', key):
      return label, settings.parse(attack, {**section, **self.common_settings}, key)

  def check(self, rows: Rows, recipes: Recipes) -> None:
    """Raises InputError if images have several labels each, since attacks need one label."""
    require_single_labels(rows, 'an attack')
    super().check(rows, recipes)


def label_and_class(entry: str) -> tuple[str, type[Attack]]:
  """Returns the label and the class of an attack, from an entry such as 'pgd' or 'strong=pgd'.

  Without LABEL= the label is the name, which is NAME for `FILE.py:NAME`.
  """
  label, _, name = entry.rpartition('=')
  return label or part_name(name), ATTACKS.find(name, f'{Study.section}.attacks')
