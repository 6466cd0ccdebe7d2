# A file without a key of its own. After all links in its path it must be in the device's folder. The language takes only
# tunables of the device itself below the links `bdi` and `device`.
turn_own() {
  local here=$PWD own inside=false
  kernel_name "$1"
  cd -P "/sys/class/block/$REPLY"
  own=$PWD
  if [[ $2 != */* ]] || cd -P "./${2%/*}" 2>/dev/null; then
    if [[ ($PWD/ == "$own"/* || ${2%/*} == bdi || ${2%/*} == device) && -f ${2##*/} && ! -L ${2##*/} ]]; then inside=true; fi
  fi
  cd "$here"
  # Restoring a missing file is no error.
  if (($# < 3)) && [[ ! -e /sys/class/block/$REPLY/$2 ]]; then return 0; fi
  $inside || fail "$1 has no $2 in its own folder"
  turn_file "$1" "$2" /sys/class/block/"$REPLY"/"$2" "${@:3}"
}
