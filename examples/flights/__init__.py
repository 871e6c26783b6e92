"""A month of departures from New York, replayed in a minute. Start reading at `app`."""
