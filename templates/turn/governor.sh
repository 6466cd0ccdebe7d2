# The frequency governor of the processors, if they have one.
turn_governor() {
  local file
  for file in /sys/devices/system/cpu/cpufreq/policy*/scaling_governor; do
    if [[ -e $file ]]; then
      turn_file "this machine" "${file##*/} of ${file%/*}" "$file" "$@"
    elif (($# > 0)); then
      fail "no processor of this machine has a governor to choose"
    fi
  done
}
