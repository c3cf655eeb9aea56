"""From paths to streams of bytes: walks folders, opens archives, reads from paths who wrote a file."""
