"""Tab-separated files of detectors: lines, cells, regions and sizes of photos."""
