{% include 'fs/mounted.sh' %}

if ! mounted {{ layer.directory }}; then
{% include 'fs/mount.sh' %}
fi
