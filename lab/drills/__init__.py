"""Fire drills: one fault at a time on a running stack; what the product shows, whether its advice mends it."""
