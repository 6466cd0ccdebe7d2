for member in {{ layer.cache }} {{ layer.origin }}; do
  kernel_name "$member"
  # udev may register them, too.
  if [[ ! -e /sys/class/block/$REPLY/bcache ]]; then echo "$member" >/sys/fs/bcache/register 2>/dev/null || true; fi
done
kernel_name {{ layer.origin }}
at=/sys/class/block/$REPLY/bcache
attached() { [[ -e $at/dev && $at/cache -ef /sys/fs/bcache/{{ layer.uuid }} ]]; }
retry attached || fail "bcache did not attach" {{ layer.cache }} "to" {{ layer.origin }}
node=$(readlink "$at/dev")
mkdir -p /dev/bcache
ln -sfn "../${node##*/}" {{ layer.device }}
{% for file, value in layer.settings.items() %}
echo {{ value }} >"$at"/{{ file }}
{% endfor %}
