"""Tables: how their files are read, what each column is, and their rows as samples."""
