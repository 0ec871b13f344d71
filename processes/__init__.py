"""What a process of Tailrace is: everything in one, a broker, a bookie, auto-recovery."""
