"""What hurts most: the classes and images that suffer in a study's views."""
