"""GPU samples from nvidia-smi, for hosts where neither the driver's library nor dcgm-exporter may be used."""
