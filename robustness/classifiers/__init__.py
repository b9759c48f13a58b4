"""From a config's section to a classifier: weights loaded, or a network trained in the workdir."""

from robustness.classifiers.builder import ClassifierBuilder
from robustness.classifiers.loading import channels, preparation, published

__all__ = ['ClassifierBuilder', 'channels', 'preparation', 'published']
