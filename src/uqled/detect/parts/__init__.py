"""The same detection part by part, on threads or a cluster: no machine holds all rows."""
