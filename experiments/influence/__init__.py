"""What leaving a field out of trained vectors says, beside training without the field."""
