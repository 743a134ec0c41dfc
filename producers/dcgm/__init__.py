"""GPUs by the page of dcgm-exporter, for hosts where the driver's library may not be used."""
