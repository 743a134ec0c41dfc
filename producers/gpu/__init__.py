"""This host's NVIDIA GPUs, by the driver's library (NVML): samples, events, processes."""
