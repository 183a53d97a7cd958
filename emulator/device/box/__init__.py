"""The in-path box: this machine as a bridge between two real devices, with the rules of firmware profiles."""
