"""Host samples: processors, memory, disks and network of this machine."""
