"""The machine npudiag runs on."""
