{% include 'fs/mounted.sh' %}

{{ layer.mkfs }}
{% include 'fs/mount.sh' %}
