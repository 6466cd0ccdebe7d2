export LC_ALL=C PATH=$PATH:/usr/sbin:/sbin
udevadm settle || :
for serial do
  found=
  for link in /dev/disk/by-id/*"$serial"; do
    case ${link##*/} in *_"$serial" | virtio-"$serial") found=$link; break ;; esac
  done
  if [[ $found ]]; then ln -sfn "${found##*/}" "/dev/disk/by-id/$serial" && found=/dev/disk/by-id/$serial; fi
  echo "$serial $found"
done
