# Succeeds if some disk is still there below an array, given by its folder in /sys.
has_member() {
  local below
  for below in "$1"/slaves/*/; do
    if [[ -e $below ]] && { [[ ! -e $below/md ]] || has_member "$below"; }; then return 0; fi
  done
  return 1
}
