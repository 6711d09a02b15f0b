"""What the bytes of a record become: one module per format, and the contract that they share. Imports `include`."""
