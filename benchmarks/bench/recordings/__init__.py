"""What is said to the servers, and the truth about it."""
