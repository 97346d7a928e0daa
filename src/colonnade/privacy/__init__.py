"""Mathematics: losses, prices, calibration, exact samplers, mechanisms. No input or output, no clock, no network."""
