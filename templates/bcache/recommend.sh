
make-bcache {{ layer.options }} -B {{ layer.origin }} -C {{ layer.cache }}
# At each boot, udev registers both and names the device /dev/bcache0; the link is for the commands below.
for member in {{ layer.cache }} {{ layer.origin }}; do echo "$member" >/sys/fs/bcache/register || true; done
device={{ layer.origin }}
device=$(basename "$(readlink -f "$device")")
mkdir -p /dev/bcache
ln -sfn "../$(basename "$(readlink "/sys/class/block/$device/bcache/dev")")" {{ layer.device }}
{% for file, value in layer.settings.items() %}
echo {{ value }} >/sys/class/block/"$device"/bcache/{{ file }}
{% endfor %}
