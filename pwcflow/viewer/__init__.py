"""A page to look at flow with: one HTML file, which needs neither a network nor a server."""

from pwcflow.viewer.view import DEFAULT_FPS, PAGE_SUFFIXES, view

__all__ = ["DEFAULT_FPS", "PAGE_SUFFIXES", "view"]
