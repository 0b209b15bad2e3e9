"""One file per export format; `uqled.export.registry` finds them here."""
