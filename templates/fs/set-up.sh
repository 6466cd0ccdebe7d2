{% include 'fs/mounted.sh' %}

{% if layer.journal_mkfs %}
{{ layer.journal_mkfs }}
{% endif %}
{{ layer.mkfs }}
{% include 'fs/mount.sh' %}
