"""From findings to alerts: one alert for one cause, its life, its evidence, and the job that carries them. Pure."""
