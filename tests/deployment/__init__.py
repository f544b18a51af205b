"""`make deploy-check`: deploy/README.md followed to the letter on two fresh machines, one for each way to install.

document: the blocks of commands; machines: where they run; visitor: the person who then uses the board.
"""
