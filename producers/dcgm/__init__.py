"""GPU samples from dcgm-exporter, for hosts where the driver's library may not be used."""
