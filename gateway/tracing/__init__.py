"""OpenTelemetry: what became of each turn, answer and file, as spans of a trace, and the numbers of
`/metrics`. Optional."""
