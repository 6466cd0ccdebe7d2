# ZFS partitions disks that it knows by their names, and waits for udev. It uses these nodes of them as they are.
members=({{ layer.members }})
mkdir -p {{ layer.nodes }} /run/matrix
for number in "${!members[@]}"; do
  kernel_name "${members[number]}"
  first_line "/sys/class/block/$REPLY/dev"
  rm -f -- {{ layer.nodes }}/"$number"
  mknod -m 600 {{ layer.nodes }}/"$number" b "${REPLY%:*}" "${REPLY#*:}"
done
