"""What models write around their answers: tags of thinking, calls of tools."""
