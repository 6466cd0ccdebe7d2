# A file of the whole host.
turn_host() {
  turn_file "this machine" "$1" "$@"
}
