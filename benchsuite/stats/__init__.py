"""Pure maths over what was collected; knows neither servers nor gates."""
