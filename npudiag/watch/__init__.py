"""Looks on while a job runs: follows its logs, samples the machine, tells what turns up, and judges at the end."""
