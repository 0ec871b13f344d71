"""Where restored values go."""
