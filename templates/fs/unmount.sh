while mounted {{ layer.directory }}; do
  retry umount {{ layer.directory }}
done
