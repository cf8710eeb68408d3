"""Long checks of what must survive kills, damage and hostile clients."""
