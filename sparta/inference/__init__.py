"""Networks on CPUs without torch: converted once, cached, and run by OpenVINO."""
