export LC_ALL=C PATH=$PATH:/usr/sbin:/sbin
exec </dev/null
mdstat=
[ ! -e /proc/mdstat ] || read -r mdstat </proc/mdstat
personality() {
  case $1 in linear | raid0 | raid1 | raid10) REPLY=$1 ;; raid456) REPLY=raid5 ;; *) return 1 ;; esac
  [[ "$mdstat " == *"[$REPLY] "* ]]
}
target() {
  case $1 in dm_*) REPLY=${1#dm_} ;; *) return 1 ;; esac
  REPLY=${REPLY//_/-}
  dmsetup targets 2>/dev/null | grep -q "^${REPLY%-pool} "
}
there() {
  [ -e "/sys/module/$1" ] || personality "$1" || grep -qsw -- "$1" /proc/filesystems ||
    { [ "$1" = dm_mod ] && [ -e /sys/class/misc/device-mapper ]; } || target "$1" || modprobe -n -q -- "$1" 2>/dev/null
}
IFS=, read -ra modules <<<"$1"
IFS=, read -ra programs <<<"$2"
for program in "${programs[@]}"; do has "$program" || echo "no-program $program"; done
for module in "${modules[@]}"; do there "$module" || echo "no-module $module"; done
IFS=, read -ra options <<<"$3"
read -r release </proc/sys/kernel/osrelease
config=/boot/config-$release
for option in "${options[@]}"; do
  [ ! -r "$config" ] || grep -q "^CONFIG_$option=" "$config" || echo "no-option $option"
done
[ "$(id -u)" = 0 ] || echo "no-root $(id -un)"
# Bit 21 is CAP_SYS_ADMIN, which root lacks in some containers.
while read -r word bits; do
  [[ $word != CapBnd: ]] || ((16#$bits >> 21 & 1)) || echo "no-mount root"
done </proc/self/status
