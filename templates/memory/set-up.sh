
{% if layer.driver == 'brd' %}
# Its number and size of disks are given when it is loaded. Disks that somebody wrote to keep it loaded.
for stat in /sys/block/ram[0-9]*/stat; do
  [[ -e $stat ]] || continue
  read -ra counts <"$stat"
  ((counts[4] == 0)) || fail "${stat%/stat} has data of others: \`modprobe -r brd\` removes it, or use null_blk"
done
if [[ -e /sys/module/brd ]]; then modprobe -r brd; fi
modprobe brd rd_nr={{ layer.devices | length }} rd_size={{ layer.kib }}
{% else %}
# Without a first device of its own.
[[ -e /sys/module/null_blk ]] || modprobe null_blk nr_devices=0
[[ -d /sys/kernel/config ]] || modprobe configfs
[[ -d /sys/kernel/config/nullb ]] || mount -t configfs none /sys/kernel/config
{% endif %}
{% for name in layer.devices %}
{% if layer.driver == 'brd' %}
ln -sfn ram{{ loop.index0 }} {{ '/dev/' ~ name }}
{% else %}
at=/sys/kernel/config/nullb/{{ name }}
mkdir "$at"
{% for file, value in layer.files.items() %}
echo {{ value }} >"$at"/{{ file }}
{% endfor %}
echo 1 >"$at/power"
# Older kernels name it by its number.
if [[ ! -b {{ '/dev/' ~ name }} ]]; then
  first_line "$at/index"
  ln -sfn "nullb$REPLY" {{ '/dev/' ~ name }}
fi
{% endif %}
kernel_name {{ '/dev/' ~ name }}
echo {{ layer.rotational }} >"/sys/class/block/$REPLY/queue/rotational"
{% endfor %}
if command -v udevadm >/dev/null; then udevadm settle; fi
