"""What the cases share: the processes, their books, the wire, and the texts."""
