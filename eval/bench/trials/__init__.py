"""Changes of the columns kernel and of their layout, timed beside what ships."""
