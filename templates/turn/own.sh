# A file that nobody has a key for. Wherever links in its path lead, it must lie in the device's own folder.
turn_own() {
  local here=$PWD own inside=false
  kernel_name "$1"
  cd -P "/sys/class/block/$REPLY"
  own=$PWD
  if [[ $2 != */* ]] || cd -P "./${2%/*}" 2>/dev/null; then
    if [[ $PWD/ == "$own"/* && -f ${2##*/} && ! -L ${2##*/} ]]; then inside=true; fi
  fi
  cd "$here"
  # Who asks for what it was anyway does not need it to be there.
  if (($# < 3)) && [[ ! -e /sys/class/block/$REPLY/$2 ]]; then return 0; fi
  $inside || fail "$1 has no $2 in its own folder"
  turn_file "$1" "$2" /sys/class/block/"$REPLY"/"$2" "${@:3}"
}
