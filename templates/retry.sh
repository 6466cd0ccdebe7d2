# Repeats a command for two seconds, because the kernel may release a device a moment later.
retry() {
  local left=20
  while ((left-- > 0)); do
    if "$@" 2>/dev/null; then return 0; fi
    sleep 0.1
  done
  "$@"
}
