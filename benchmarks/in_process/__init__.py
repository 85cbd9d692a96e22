"""The engine without sockets: turns and questions fed to it by hand, ours and other recipes."""
