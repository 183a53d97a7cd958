"""Programs run as children; those of other projects' libraries run in the peers' own environment, as scripts."""
