# Read by the first shell of a sandbox before the command: limits that everything in it inherits. They are set here,
# inside the user namespace, where the number of processes counts this sandbox alone. One that cannot be set is already
# lower than asked for.
ulimit -c 0
ulimit -n "$SANDBOX_FILES" 2>/dev/null
ulimit -f "$SANDBOX_FILE_KB" 2>/dev/null
ulimit -d "$SANDBOX_DATA_KB" 2>/dev/null
ulimit -u "$SANDBOX_PIDS" 2>/dev/null
echo 500 2>/dev/null >/proc/self/oom_score_adj
unset BASH_ENV SANDBOX_FILES SANDBOX_FILE_KB SANDBOX_DATA_KB SANDBOX_PIDS
