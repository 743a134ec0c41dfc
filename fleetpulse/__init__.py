"""The face: command line, local stack, proof."""
