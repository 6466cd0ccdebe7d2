
# Without a first device of its own.
[[ -e /sys/module/null_blk ]] || modprobe null_blk nr_devices=0
[[ -d /sys/kernel/config ]] || modprobe configfs
[[ -d /sys/kernel/config/nullb ]] || mount -t configfs none /sys/kernel/config
{% for name in layer.devices %}
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
kernel_name {{ '/dev/' ~ name }}
echo {{ layer.rotational }} >"/sys/class/block/$REPLY/queue/rotational"
{% endfor %}
if command -v udevadm >/dev/null; then udevadm settle; fi
