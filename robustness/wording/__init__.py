"""What results say in words: the findings of each study as sentences, plain labels of numbers."""
