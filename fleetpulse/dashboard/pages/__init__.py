"""The pages, one module each: ``PAGE`` says what it is, ``build`` makes it."""
