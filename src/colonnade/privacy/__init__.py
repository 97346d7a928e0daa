"""Mathematics: losses, prices, calibration, exact samplers, laws of noise. No input or output, no clock, no network."""
