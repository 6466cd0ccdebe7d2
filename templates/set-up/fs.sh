{% include 'fs.sh' %}

{{ layer.mkfs }}
mount_fs
