"""The protocols of live servers. Every one writes its sessions down in the same normal form."""
