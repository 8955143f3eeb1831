"""The terminal app: a watcher of a session's events and a submitter of ops. Textual is imported only here."""
