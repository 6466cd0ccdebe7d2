"""A cell into the scripts and fio jobs that will run, and what their read-back must say."""
