{% include 'retry.sh' %}

{% include 'fs/mounted.sh' %}

{% include 'lay-out.sh' %}
{% if work.direct and layer.bypasses_memory and not stack.retimed %}
sync -f {{ layer.directory }}
{% else %}
# A new mount has empty caches, and the other caches of the host stay as they are.
{% include 'fs/unmount.sh' %}
{% include 'fs/mount.sh' %}
{% endif %}
