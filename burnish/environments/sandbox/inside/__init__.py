"""What runs in the helper process and in the sandboxes. Standard library only, and relative imports only.

The helper imports this folder as the package `inside`, without `burnish`, so that it stays small: a sandbox is a fork
of it.
"""
