[[ :$PATH: == *:/usr/sbin:* ]] || PATH+=:/usr/sbin:/sbin
export LC_ALL=C PATH
matrix_begins() {
  printf %s "$matrix_mark begin $1 ${EPOCHREALTIME/./}
"
}
matrix_ends() {
  printf %s "
$matrix_mark end $1 ${EPOCHREALTIME/./}
"
}
matrix_goes_on() {
  set -- "$?"
  if [ "$1" != 0 ]; then exit "$1"; fi
  matrix_ends 0
}
