# Slow motion: timers of the kernel that no tunable declares get {{ slow }} times their own value, and rates a
# {{ slow }}th. Files that this kernel does not have are skipped.

# Sets the file $2, which is the setting $3 of $1, from its first value.
slow_file() {
  local value part=
  if [[ ! -w $2 ]]; then return 0; fi
  # A trial before this one may have changed it.
  memory_of "$2"
  if [[ -s $REPLY ]]; then
    { read -r _ && read -r value; } <"$REPLY"
  else
    first_line "$2" 2>/dev/null
    value=$REPLY
  fi
  if [[ $value == *.* ]]; then part=${value#*.}; fi
  if [[ ! ${value/./} =~ ^[0-9]+$ ]]; then return 0; fi
  value=$((10#${value/./}))
  case $2 in
    */speed_limit_m*) value=$((value / {{ slow }})) ;;
    *) value=$((value * {{ slow }})) ;;
  esac
{% raw %}
  if [[ -n $part ]]; then
    printf -v value '%0*d' $((${#part} + 1)) "$value"
    value=${value:0:${#value}-${#part}}.${value: -${#part}}
  fi
{% endraw %}
  if [[ $value == 0 ]]; then return 0; fi
  turn_file "$1" "$3" "$2" "$value"
}
slow_host() {
  local file
  for file in "$@"; do slow_file "this machine" "$file" "$file"; done
}
slow_times() {
  local file
  kernel_name "$1"
  local at=/sys/class/block/$REPLY
  for file in "${@:2}"; do slow_file "$1" "$at/$file" "$file"; done
}
slow_f2fs() {
  local file
  kernel_name "$1"
  local at=/sys/fs/f2fs/$REPLY
  for file in "${@:2}"; do slow_file "$1" "$at/$file" "$file"; done
}
