"""What training code imports: annotations and step marks that cost next to nothing while nothing captures."""
