"""Accuracy on video frames and on the worst of their neighbors, pm-k (Shankar et al. 2021).

python main.py --config=configs/video_pm_k.py --workdir=/tmp/pm_k

  No download, and no film: 200 rendered clips of moving MNIST digits, each with an anchor and up to
  20 neighbors. Trains a small CNN on frames of other digits. Expect an accuracy near .92 on anchors
  and near .88 at pm-10; about 20 seconds on 2 cores. It shows the study, and says nothing about
  natural video.

python main.py --config=configs/video_pm_k.py:frames --workdir=/tmp/pm_k_frames \
    --config.data.video_neighbors.metadata=DIR --config.data.video_neighbors.frames=DIR \
    --config.classifier.name=efficientnet_lite0

  Frames on disk, as ImageNet-Vid-Robust is released: `metadata` holds pmsets.json and labels.json,
  `frames` the frames; both are the folder imagenet-vid-robust of the archive. ImageNet's 1000
  classes are projected onto the 30 of ImageNet-Vid. One forward pass for each distinct frame.

python main.py --config=configs/video_pm_k.py:predictions --workdir=/tmp/pm_k_scored \
    --config.predictions=FILE --config.metadata=DIR --config.study.k=10

  No classifier and no frames: FILE is a JSON file {frame: [30 or 1000 scores]}, or the folder
  records/CLASSIFIER of a run above. Several are separated by commas, and called by their names or
  as in --config.predictions=first=A/records/net,second=B/records/net. Records bring their sets and
  need no metadata; with it they are scored on those sets instead, frames found by their paths.
  Scores are logits or probabilities: --config.scores=auto (the default) finds it by values, says
  which in results.json, and refuses unclear ones; 'logits' and 'probabilities' state it.
  --config.study.merge=max, sum or mean says how 1000 scores become 30.
  --config.unreviewed=DIR adds what the review of the sets changes. `accuracy_anchor` and
  `accuracy_pm_k` at k = 10 equal the released scorer to the last digit.
"""

from robustness.config.defaults import ConfigDict, default_config, predictions_config, variants


def made() -> ConfigDict:
  """Returns the default config: pm-k accuracy of a small CNN on rendered clips of moving digits."""
  config = default_config('video_pm_k')
  config.study.distances = True
  config.data.source = 'made_clips'
  config.classifier.update(name='small_cnn', train=True)
  config.classifier.augment.policy = ('crop',)
  config.classifier.augment.crop.padding = 2
  config.training.update(epochs=24.0, checkpoint_every_steps=100)
  return config


def frames() -> ConfigDict:
  """Returns the config of pm-k accuracy of published ImageNet weights on neighbor sets."""
  config = default_config('video_pm_k')
  config.data.source = 'video_neighbors'
  config.classifier.update(name='efficientnet_lite0', label_space='imagenet_vid')
  return config


def predictions() -> ConfigDict:
  """Returns the config of pm-k accuracy of predictions in a file or in an earlier run's records."""
  return predictions_config('video_pm_k')


get_config = variants(made, frames, predictions)
