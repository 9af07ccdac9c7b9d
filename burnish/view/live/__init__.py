"""The live page: a run followed while it is written, served over HTTP. Needs the extra `view`."""
