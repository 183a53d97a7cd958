"""The version of Charkha: of the command, of both distributions, of what an agent says of itself."""

VERSION = "0.2.0"

BUILD = "compiled" if __file__.endswith(".so") else "pure"
"""How the modules that each packet passes were installed; docs/install.md. This one is compiled with them."""
