"""Classifiers with published weights, selected by their name or by the name of their file."""

import dataclasses

from robustness.classifiers import ClassifierSettings
from robustness.classifiers.weights_file import WeightsFile
from robustness.models import label_space
from robustness.models.architecture import LOCAL, SOURCES


@dataclasses.dataclass(frozen=True)
class PublishedWeights(WeightsFile):
  """A network with published weights for ImageNet's 1000 classes.

  The catalog of this project or a hub, such as Hugging Face, states how images are prepared.
  """

  is_fallback = False  # this kind is asked before its base class
  class_names = label_space.get(label_space.IMAGENET).class_names

  @classmethod
  def claims(cls, section: ClassifierSettings) -> bool:
    """Returns whether the settings select published weights, without asking a hub.

    `section.weights` can be their name, such as 'torchvision:resnet50.IMAGENET1K_V1', or a path
    that ends with the name of their file. '' selects the default weights of an architecture that
    has some.
    """
    if section.weights.partition(':')[0] in SOURCES:  # a published name, such as 'timm:...'
      return section.architecture is not None
    # a user's file may come with a description of its preprocessing too; its source is LOCAL
    return section.record is not None and section.record.source != LOCAL
