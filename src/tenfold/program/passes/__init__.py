"""Passes: functions from Program to Program that keep what it computes."""
