echo "kernel $(uname -r)"
echo "processors $(nproc --all)"
echo "fio $(fio --version)"
echo "mdadm $(mdadm --version 2>&1)"
echo "lvm $(lvm version 2>/dev/null | sed -n 's/ *LVM version: *//p')"
echo "zfs $(modinfo -F version zfs 2>/dev/null)"
echo "clocksource $(cat /sys/devices/system/clocksource/clocksource0/current_clocksource)"
echo "raid6 $(dmesg | sed -n 's/.*raid6: using algorithm \([^ ]*\).*/\1/p' | tail -1)"
told=
for file in /sys/devices/system/cpu/vulnerabilities/*; do
  if read -r text <"$file"; then told+="; ${file##*/}: $text"; fi
done
echo "mitigations ${told#; }"
told=
read -r words </proc/cmdline
for word in $words; do case $word in matrix.*) ;; *) told+=" $word" ;; esac; done
echo "command_line$told"
[ -e /proc/mdstat ] && echo "md there" || echo "md missing"
