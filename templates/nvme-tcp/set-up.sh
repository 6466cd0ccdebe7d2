
for module in nvmet_tcp nvme_tcp; do
  if [[ ! -e /sys/module/$module ]]; then modprobe "$module"; fi
done
[[ -d /sys/kernel/config ]] || modprobe configfs
[[ -d /sys/kernel/config/nvmet ]] || mount -t configfs none /sys/kernel/config
first_line /sys/class/net/lo/flags
if (( (REPLY & 1) == 0 )); then
  if command -v ip >/dev/null; then ip link set lo up; else busybox ip link set lo up; fi
fi
port={{ layer.port }}
if (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then
  fail "another program listens on TCP port $port of 127.0.0.1, which the target needs: stop it; \`ss -ltnp\` names it"
fi

# The target: a subsystem with a namespace for each device, on a port of the loopback only.
{% include 'nvme-tcp/target.sh' %}

# The initiator.
echo {{ layer.options }} >/dev/nvme-fabrics
wanted={{ layer.uuids[0] }} top=
arrived() {
  local block
  for block in /sys/block/nvme*n*; do
    if [[ $block == */nvme*c*n* || ! -e $block/uuid ]]; then continue; fi
    first_line "$block/uuid"
    if [[ $REPLY == "$wanted" && -b /dev/${block##*/} ]]; then
      ln -sfn "${block##*/}" "$top"
      return 0
    fi
  done
  return 1
}
{% for top in layer.tops %}
wanted={{ layer.uuids[loop.index0] }} top={{ top }}
retry arrived || fail {{ top }} "did not arrive by NVMe over TCP"
{% endfor %}
if command -v udevadm >/dev/null; then udevadm settle; fi
