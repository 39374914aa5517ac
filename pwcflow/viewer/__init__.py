"""A page to look at flow with: one HTML file, which needs neither a network nor a server."""

from pwcflow.viewer.view import view

__all__ = ["view"]
