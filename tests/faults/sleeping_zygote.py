"""Where cages would come from, and which notices nothing: for tests of how it is ended."""

import socket
import sys
import time

if __name__ == "__main__":
    control = socket.socket(fileno=int(sys.argv[1]))
    control.send(b"ready")
    time.sleep(600)
