{% include 'fs.sh' %}

mounted {{ layer.directory }} || mount_fs
