"""WebGPU as a device: any vendor's GPU, through wgpu."""
