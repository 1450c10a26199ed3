"""Pure: no clock, no file, no process, no logging. Events and rules in, new world and actions out."""
