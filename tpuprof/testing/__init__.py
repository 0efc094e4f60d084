"""For tests of training code: `expect` and the pytest marker."""
