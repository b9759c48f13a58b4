r"""Whether classifiers answer by shape or by texture, on the 1280 cue-conflict pictures.

python main.py --config=configs/shape_bias.py --workdir=/tmp/shape_bias \
    --config.classifier.name=efficientnet_lite0 --config.data.cue_conflict.path=DIR

  DIR holds airplane, bear, ..., truck of the release cue-conflict of model-vs-human. ImageNet's
  classes are joined to the 16 by their mean probability, as the authors do. A minute on 2 cores.

python main.py --config=configs/shape_bias.py:edge --workdir=/tmp/edge \
    --config.classifier.name=efficientnet_lite0 --config.data.cue_conflict.path=DIR

  Accuracy on the 160 edge pictures; :silhouette likewise.
"""

from robustness.config.defaults import ConfigDict, default_config, variants


def cue_conflict(study: str = 'shape_bias', dataset: str = 'cue_conflict') -> ConfigDict:
  """Returns the config of pictures with the shape of one class and the texture of another.

  Args:
    study: name of the study; the variants on other pictures measure 'accuracy'.
    dataset: folder of the release of model-vs-human with the pictures, such as 'edge'.
  """
  config = default_config(study)
  config.data.source = 'cue_conflict'
  config.data.cue_conflict.dataset = dataset
  config.classifier.update(label_space='cue_conflict', merge='mean')
  return config


def edge() -> ConfigDict:
  """Returns the config of accuracy on edges."""
  return cue_conflict(study='accuracy', dataset='edge')


def silhouette() -> ConfigDict:
  """Returns the config of accuracy on silhouettes."""
  return cue_conflict(study='accuracy', dataset='silhouette')


get_config = variants(cue_conflict, edge, silhouette)
