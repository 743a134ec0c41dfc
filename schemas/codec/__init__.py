"""Wire formats: blocks of columns to bytes and back."""
