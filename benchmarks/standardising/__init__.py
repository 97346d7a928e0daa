"""How far standardised values reach: clipping against noise, on simulated people."""
