personality() {
  case $1 in linear | raid0 | raid1 | raid10) REPLY=$1 ;; raid456) REPLY=raid5 ;; *) return 1 ;; esac
}
mdstat= without=
[ ! -e /proc/mdstat ] || read -r mdstat </proc/mdstat
read -r words </proc/cmdline
for word in $words; do
  case $word in matrix.modules=*) IFS=, read -ra wanted <<<"${word#*=}" ;; esac
done
for module in "${wanted[@]}"; do
  if [[ -e /sys/module/$module ]]; then continue; fi
  if personality "$module"; then
    [[ "$mdstat " == *"[$REPLY] "* ]] || without+=" $module"
  elif [[ -e /lib/modules/$(uname -r)/modules.builtin ]]; then
    modprobe -n -q "$module" || without+=" $module"
  fi
done
echo "without$without"
