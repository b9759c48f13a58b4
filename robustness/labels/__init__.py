"""Label spaces, and the names of ImageNet's classes."""
