"""The sources of images: a module holds one or more, and imports TensorFlow when one is opened."""
