"""Bad clients beside good ones: what the good ones notice."""
