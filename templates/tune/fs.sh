
{% include 'retry.sh' %}

{% include 'fs/mounted.sh' %}

# Files of another shape would fill the disk, and those of a trial that moved them about are not as they were laid out.
for old in {{ layer.directory }}/matrix/*; do
  if [[ -e $old{% if not files.spent %} && $old != {{ files.directory }}{% endif %} ]]; then rm -rf -- "$old"; fi
done
if [[ ! -e {{ files.directory }}/whole ]]; then
  mkdir -p {{ files.directory }}
  said=$(printf '%s' {{ lay_out }} | fio - 2>&1) || {
    printf '%s\n' "$said" >&2
    fail "laying files out:"
  }
  : >{{ files.directory }}/whole
fi
{% if work.direct and layer.bypasses_memory %}
sync -f {{ layer.directory }}
{% else %}
# A file system that was just mounted has nothing in memory, and nobody else's caches were touched for it.
{% include 'fs/unmount.sh' %}
{% include 'fs/mount.sh' %}
{% endif %}
