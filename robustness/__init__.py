"""Measures and improves how robust image classifiers are: rows × views → records."""

import os

# JAX and TensorFlow read these when they are first imported: fatal errors alone are printed by
# their C++ parts, which announce slow compilations and large allocations as errors and warnings.
os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')
os.environ.setdefault('TF_ENABLE_ONEDNN_OPTS', '0')  # TensorFlow only reads images here

__version__ = '0.1.0'
