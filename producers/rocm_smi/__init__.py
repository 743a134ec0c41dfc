"""GPU samples from rocm-smi, for AMD GPUs."""
