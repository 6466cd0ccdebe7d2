# A file of the whole machine.
turn_host() {
  turn_file "this machine" "$1" "$@"
}
