"""What the commands do once their options are parsed: imported when there is work to do, as it loads torch and DSPy."""
