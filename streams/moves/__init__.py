"""What is remembered of moves: where pods must not return, who goes in circles, what fits nowhere, what helped."""
