"""GPUs by the program nvidia-smi: the last resort, where neither the driver's library nor dcgm-exporter may be used."""
