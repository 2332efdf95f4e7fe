"""WebDAV."""
